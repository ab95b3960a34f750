"""Exercises on what a gateway looks at: how old a view may be, what a count misses, what a prefix draws."""

from __future__ import annotations

from math import ceil

from kilocard.notebook.exercises.exercise import Exercise

RATE_PER_S, EVERY_S = 80.0, 2.0
SEATS, HELD = 32, 20
ENGINES = 8
FAST_MS, SLOW_MS = 8.0, 40.0
LONG_LEFT, SHORT_LEFT, SHORT_ONES, ASKED = 2000, 20, 31, 300
POPULAR, MEAN_HELD, BOUND = 0.6, 20, 1.25


def _waiting() -> float:
    return HELD + RATE_PER_S * EVERY_S - SEATS


def _oldest_s() -> float:
    return (SEATS - HELD) / RATE_PER_S


def _fast_in_flight() -> float:
    return SLOW_MS / FAST_MS - 1


def _sent_there() -> int:
    return ceil((LONG_LEFT - SHORT_ONES * SHORT_LEFT) / ASKED)


def _holders() -> float:
    return float(ceil(POPULAR * ENGINES * MEAN_HELD / (BOUND * (MEAN_HELD + 1))))


EXERCISES = (
    Exercise(
        "4.2.1",
        _waiting,
        "requests",
        lambda it: (
            "Until the next look all 80 × 2 = 160 requests go to the one that was idlest. It holds 20 + "
            f"160 = 180 then, 32 of them in seats: {it:.0f} wait, while seven engines empty. Then another "
            "is idlest."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "those that it held are forgotten": RATE_PER_S * EVERY_S - SEATS,
            "the seats are forgotten": HELD + RATE_PER_S * EVERY_S,
            "the 160 are dealt to all eight": HELD + RATE_PER_S * EVERY_S / ENGINES,
        },
    ),
    Exercise(
        "4.2.2",
        _oldest_s,
        "s",
        lambda it: (
            f"32 − 20 = 12 seats are free, and 80 requests a second fill them in 12 ÷ 80 = {it:.2f} s. A "
            "view that is older sends people into a line. At ten times the rate it is ten times less: "
            "what polls well in a test herds in production."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {
            "the free seats of all eight are counted": ENGINES * (SEATS - HELD) / RATE_PER_S,
            "all its seats are taken as free": SEATS / RATE_PER_S,
        },
    ),
    Exercise(
        "4.2.3",
        _fast_in_flight,
        "requests",
        lambda it: (
            "The slow one, empty: (0 + 1) × 40 = 40. A fast one with n: (n + 1) × 8. They are equal at n "
            f"= 40 ÷ 8 − 1 = {it:.0f}. Least active sends to the slow one as soon as each fast one holds a "
            "single request."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "the request itself is not counted": SLOW_MS / FAST_MS,
            "counts are compared and not times": 1.0,
        },
    ),
    Exercise(
        "4.2.4",
        lambda: float(_sent_there() - (SEATS - SHORT_ONES)),
        "requests",
        lambda it: (
            "B has 31 × 20 = 620 tokens to come, A 2,000. B stays below A for 620, 920, 1,220, 1,520 and "
            f"1,820: five requests go to B, which has one free seat. So {it:.0f} wait, though A has 31 "
            "seats free. Tokens to come say how long an engine will be busy. Who asks now wants to know "
            "whether a seat is free."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "the free seat is forgotten": float(_sent_there()),
            "the policy is taken for one that counts requests": 1.0,
        },
    ),
    Exercise(
        "4.2.5",
        _holders,
        "engines",
        lambda it: (
            "8 × 20 = 160 are in flight, 96 of them with this prompt. An engine may take one more while "
            f"it has, with it, at most 1.25 × (20 + 1) = 26. So 96 ÷ 26.25 = 3.7, and at least {it:.0f} "
            "engines hold the prompt. The bound is what keeps a popular prompt from making one engine "
            "hot, and what it costs is a copy of the prompt in each of the others."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "there is no bound": 1.0,
            "the mean is taken for the bound": float(ceil(POPULAR * ENGINES)),
        },
    ),
)
