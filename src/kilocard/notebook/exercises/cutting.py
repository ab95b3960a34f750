"""Exercises on tensor parallelism: what divides, what dies, and how many cards."""

from __future__ import annotations

import math

from kilocard.notebook.exercises.exercise import Exercise
from kilocard.notebook.layouts import judge
from kilocard.parallel import Layout


def _most_within_12_ms() -> int:
    return judge("llama-3.1-8b", "h100-sxm").most_within(Layout(), 256, 0.012, None)


EXERCISES = (
    Exercise(
        "2.2.1",
        lambda: 14 / 2 + 2 / 2 + 4 + 2 * 32 * 0.010,
        "ms",
        lambda it: (
            "Reading and multiplying halve, 7 + 1 ms; the engine's own 4 ms stay; two allreduces a layer are "
            f"64 × 10 µs = 0.64 ms. {it:.1f} ms: 1.6 times as fast with twice the cards."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {
            "everything is halved": 10.0,
            "the allreduces are left out": 12.0,
            "one allreduce a layer is counted": 12.32,
        },
    ),
    Exercise(
        "2.2.2",
        lambda: 20 / 4,
        "times",
        lambda it: (
            f"What does not divide, 4 ms, is left: 20 ÷ 4 = {it:.0f} times, with as many cards as you like "
            "(Amdahl's law). A faster engine moves that bound; a faster card does not."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {"only the reading divides": 20 / 6},
    ),
    Exercise(
        "2.2.3",
        lambda: 0.8,
        "%",
        lambda it: (
            "A thousand cards lose one a day. As groups of eight it takes its seven neighbours with it: "
            f"8 ÷ 1,000 = {it} % of the capacity until the group is back; as copies 0.1 %. Over a start of "
            "five minutes neither is much; over a week of waiting for a spare, it is a machine."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {"the dead card is counted alone": 0.1},
    ),
    Exercise(
        "2.2.4",
        lambda: float(math.ceil(64 / _most_within_12_ms())),
        "cards",
        lambda it: (
            f"One card keeps 12 ms up to {_most_within_12_ms()} requests at a time, so 64 take {it:.0f} "
            "copies. The other six cards are spare capacity, not a reason to cut."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {"all eight are put to work": 8.0, "one card is taken to hold them": 1.0},
    ),
)
