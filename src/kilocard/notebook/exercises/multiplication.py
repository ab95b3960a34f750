"""Exercises on the multiplication: what a replica gives, and how many of them a target takes."""

from __future__ import annotations

from kilocard.notebook.exercises.exercise import Exercise
from kilocard.planning.capacity import down_share_of, size_of, spares_for

EXERCISES = (
    Exercise(
        "5.1.1",
        lambda: 24 / 0.048,
        "tokens/s",
        lambda it: (
            f"Twenty-four readers get a token each every 48 ms: 24 ÷ 0.048 = {it:.0f} tokens/s. What one of "
            "them sees is 1 ÷ 0.048 = 21; who plans with that buys twenty-four times as many replicas."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {"one reader's speed is given": 1 / 0.048, "TPOT is taken for a rate": 24 * 0.048},
    ),
    Exercise(
        "5.1.2",
        lambda: float(size_of(60_000, 500, efficiency=0.7).with_headroom),
        "replicas",
        lambda it: (
            f"60,000 × 1.25 ÷ (500 × 0.7) = 214.3, so {it:.0f}. The headroom goes on top of the target and "
            "the efficiency under the replica; to multiply both onto the target is the same, to add them is "
            "not."
        ),
        tolerance_ratio=0.004,
        mistakes=lambda: {
            "the headroom is left out": 172.0,
            "the efficiency is left out": 150.0,
            "neither is counted": 120.0,
            "the rest is cut off": 214.0,
        },
    ),
    Exercise(
        "5.1.3",
        lambda: float(spares_for(100, down_share_of(50_677, 24, 8), 0.999)),
        "replicas",
        lambda it: (
            "A replica of eight cards is away for 1 − (50,677 ÷ 50,701)⁸ = 0.38 % of the time, so of a "
            f"hundred 0.4 are, in the mean. The binomial law wants {it:.0f} spares for 99.9 %: the mean is "
            "not what fails you, the tail is."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "the mean number away is rounded up": 1.0,
            "a replica is taken for one card": float(spares_for(100, down_share_of(50_677, 24, 1), 0.999)),
        },
    ),
    Exercise(
        "5.1.4",
        lambda: 8 * 110 / 40,
        "times",
        lambda it: (
            f"Eight copies give 8 × 110 = 880 tokens/s, the group 40: {it:.0f} times. The 40 may be a good "
            "reason all the same, if a reader needs more than the 14 tokens/s that each of the copies' "
            "gets; then fewer requests at once on one card is the cheaper way to it."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {
            "one card is held against the group": 110 / 40,
            "tokens of one reader are divided": 40 / 14,
        },
    ),
)
