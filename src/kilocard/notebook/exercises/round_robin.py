"""Exercises on round robin: how far equal counts stray, what the spread costs, and what it would cost in
cards."""

from __future__ import annotations

from math import sqrt

from kilocard.notebook.exercises.exercise import Exercise

ENGINES, REQUESTS = 8, 400
COSTS_CV, LOAD = 1.8, 0.70
BUSY, TIMES_LESS = 0.80, 10.0
CONNECTIONS = 8


def _stray_percent() -> float:
    return 100 * COSTS_CV / sqrt(REQUESTS / ENGINES)


def _enough_requests() -> float:
    return (COSTS_CV / (1 / LOAD - 1)) ** 2


def _times_longer() -> float:
    arrivals = 1 / ENGINES
    return (arrivals + COSTS_CV**2) / arrivals


def _engines() -> float:
    shorter = BUSY / (1 - BUSY) / TIMES_LESS
    return ENGINES * BUSY / (shorter / (1 + shorter))


def _without_any() -> float:
    return ENGINES * (1 - 1 / ENGINES) ** CONNECTIONS


EXERCISES = (
    Exercise(
        "4.1.1",
        _stray_percent,
        "%",
        lambda it: (
            "Each engine gets 400 ÷ 8 = 50 requests, exactly. Its work is a sum of 50 costs, and the "
            f"spread of a sum of n is that of one ÷ √n: 1.8 ÷ √50 = {it:.1f} %. One engine in six has that "
            "much more than its part, or more still."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {
            "the sum of all 400 is taken": 100 * COSTS_CV / sqrt(REQUESTS),
            "the spread is divided by n, not by its root": 100 * COSTS_CV * ENGINES / REQUESTS,
        },
    ),
    Exercise(
        "4.1.2",
        _enough_requests,
        "requests",
        lambda it: (
            "At a load of 0.70 an engine can bear 1 ÷ 0.70 − 1 = 43 % more than its part. 1.8 ÷ √n = 0.43 "
            f"for n = (1.8 ÷ 0.43)² = {it:.1f}. Over the time of fewer requests than that, what an engine "
            "gets is often more than it can do. Time evens it out, but those who wait meanwhile do not "
            "see that."
        ),
        tolerance_ratio=0.04,
        mistakes=lambda: {
            "the room is taken as 30 %, a share of what the engine can do": (COSTS_CV / (1 - LOAD)) ** 2,
            "the ratio is not squared": COSTS_CV / (1 / LOAD - 1),
        },
    ),
    Exercise(
        "4.1.3",
        _times_longer,
        "times",
        lambda it: (
            "Dealt in turn to 8, arrivals have c_a² = 1/8. Equal costs: 1/8 + 0. Unequal ones: 1/8 + 1.8² "
            f"= 3.37. The ratio is {it:.0f}. So a bench whose requests are all alike says nothing of round "
            "robin."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {
            "the spread of costs is not squared": (1 / ENGINES + COSTS_CV) * ENGINES,
            "arrivals are taken as random, which they no longer are": 1 + COSTS_CV**2,
        },
    ),
    Exercise(
        "4.1.4",
        _engines,
        "engines",
        lambda it: (
            "0.8 ÷ 0.2 = 4, and a tenth of it is 0.4 = ρ ÷ (1 − ρ), so ρ = 0.4 ÷ 1.4 = 0.286. The same "
            f"work at that load needs 8 × 0.8 ÷ 0.286 = {it:.1f} engines, 14 more. Or a line of code that "
            "looks where it sends."
        ),
        tolerance_ratio=0.04,
        mistakes=lambda: {
            "the wait is taken to fall as the load does": ENGINES * TIMES_LESS,
            "the new engines alone are counted": _engines() - ENGINES,
        },
    ),
    Exercise(
        "4.1.5",
        _without_any,
        "engines",
        lambda it: (
            "Each connection misses a given engine with a chance of 7/8, all eight do with (7/8)^8 = 34 "
            f"%. Of 8 engines that leaves {it:.2f} without any work, for as long as the connections live. "
            "A Service spreads connections, and clients keep theirs open."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {
            "it is a chance, of one engine": (1 - 1 / ENGINES) ** CONNECTIONS,
            "those that got some are counted": ENGINES - _without_any(),
        },
    ),
)
