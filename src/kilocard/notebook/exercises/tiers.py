"""Exercises on two tiers: what one gateway's death takes, when it is known, what is left of the caps."""

from __future__ import annotations

from math import ceil

from kilocard.notebook.exercises.exercise import Exercise
from kilocard.notebook.tiers import known_within_s
from kilocard.routing.limits import owned_caps
from kilocard.specs.cluster import Balancer

RATE_PER_S, ANSWER_S, GATEWAYS = 40, 6.0, 4
ENGINES, CAP, PEAK = 8, 24, 120
SMALL_POOL, SMALL_CAP = 5, 3


def _lost() -> float:
    return RATE_PER_S * ANSWER_S / GATEWAYS


def _hung_known_s() -> float:
    return known_within_s(Balancer(), hangs=True)


def _gateways_needed() -> float:
    caps = ENGINES * CAP
    return float(ceil(caps / (caps - PEAK)))


def _first_ones_part() -> float:
    return float(sum(owned_caps([SMALL_CAP] * SMALL_POOL, 0, 2)))


EXERCISES = (
    Exercise(
        "4.5.1",
        _lost,
        "requests",
        lambda it: (
            f"In flight are rate × time = 40/s × 6 s = 240, a quarter of them at each gateway: {it:.0f}. "
            "They are lost, and nothing else is. With eight gateways it would be 30: the number of gateways "
            "is chosen by what one death may take, long before CPU asks for it."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {
            "all in flight are counted": RATE_PER_S * ANSWER_S,
            "the requests of one second are counted": RATE_PER_S / GATEWAYS,
        },
    ),
    Exercise(
        "4.5.2",
        _hung_known_s,
        "s",
        lambda it: (
            "It hangs right after a good check: 1 s until the next one, 2 s until that one is given up, "
            f"0.25 s to the second (fastinter), 2 s more: {it:.2f} s. A killed one refuses: 1 + 0.25 = "
            "1.25 s, and meanwhile its connections are tried elsewhere. A shorter time-out finds the hung "
            "one sooner, and takes a gateway for dead that only was busy."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {
            "the gateway is taken for killed, which refuses at once": known_within_s(Balancer(), hangs=False),
            "one failed check is taken for enough": 3.0,
            "later checks are thought to keep the whole interval": 6.0,
        },
    ),
    Exercise(
        "4.5.3",
        _gateways_needed,
        "gateways",
        lambda it: (
            "Caps in all: 8 × 24 = 192. Of N gateways N − 1 own 192 × (N − 1) ÷ N, which has to be 120 at "
            f"least: N ≥ 192 ÷ (192 − 120) = 2.67, so {it:.0f}. Two would leave 96: the 24 that find no room "
            "wait in line, or are refused, until the other is back."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "one gateway is thought to own every cap": 1.0,
            "half of the caps are thought to be enough": 2.0,
        },
    ),
    Exercise(
        "4.5.4",
        _first_ones_part,
        "requests",
        lambda it: (
            "3 ÷ 2 is 1 each, and one over; what is over is dealt in turn, so gateway 0 owns 2, 1, 2, 1, 2 = "
            f"{it:.0f}, and gateway 1 owns 1, 2, 1, 2, 1 = 7. All 15 are owned, and no engine is ever sent "
            "more than 3, though neither gateway has heard of the other."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "each half is rounded up": 10.0,
            "each half is rounded down": 5.0,
            "a gateway is thought to own all of it": 15.0,
        },
    ),
)
