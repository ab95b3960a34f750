"""Exercises on the discount: shares that multiply, reserves, and whose promise costs what."""

from __future__ import annotations

from kilocard.notebook.exercises.exercise import Exercise

SHARES = (0.97, 0.95, 0.98)

EXERCISES = (
    Exercise(
        "5.2.1",
        lambda: 100 * SHARES[0] * SHARES[1] * SHARES[2],
        "%",
        lambda it: (
            f"0.97 × 0.95 × 0.98 = {it:.1f} %. Each share is of what the one before has left, so they "
            "multiply. Three small things are a tenth together, and none of them is worth a meeting of its "
            "own."
        ),
        tolerance_ratio=0.002,
        mistakes=lambda: {
            "the losses are added": 100 - 3 - 5 - 2,
            "only the largest is counted": 95.0,
        },
    ),
    Exercise(
        "5.2.2",
        lambda: 100 * 0.9 * (120 / 124) / 1.25,
        "%",
        lambda it: (
            f"0.90 × 120 ÷ 124 ÷ 1.25 = {it:.1f} %. On a usual day, with nothing broken and the target's "
            "load, a card works at seven tenths of its best. That is the plan, and whoever calls it waste "
            "will take the headroom for the next service."
        ),
        tolerance_ratio=0.004,
        mistakes=lambda: {
            "the headroom is taken off as 25 %": 100 * 0.9 * (120 / 124) * 0.75,
            "the spares are left out": 100 * 0.9 / 1.25,
            "the efficiency is left out": 100 * (120 / 124) / 1.25,
        },
    ),
    Exercise(
        "5.2.3",
        lambda: 100 * (1 - 0.80 / 0.96),
        "%",
        lambda it: (
            f"1 − 0.80 ÷ 0.96 = {it:.1f} % fewer tokens from each card, so 20 % more cards for the same "
            "target: 0.96 ÷ 0.80 = 1.2. Ask what the stricter first word is worth before you ask for a "
            "better router."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "the shares are subtracted": 16.0,
            "the cards are given instead of the tokens": 20.0,
        },
    ),
)
