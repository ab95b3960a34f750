"""Exercises on a slow replica: its share, where it can be seen, and when it is slow at all."""

from __future__ import annotations

from math import floor

from kilocard.notebook.exercises.exercise import Exercise
from kilocard.routing.slow import Paced, SlowRule, times_usual

REPLICAS, SLOWER = 16, 4
SLOWER_OF_MANY = 3
MINE_MS, MY_LOAD, THEIRS_MS, THEIR_LOAD, NEIGHBOURS = 45.0, 11.0, 22.0, 5.0, 7
POOL, MOST_SHARE, BAD = 12, 0.3, 5


def _share_percent() -> float:
    return 100 / (SLOWER * (REPLICAS - 1) + 1)


def _in_flight_percent() -> float:
    return 100 * SLOWER / (REPLICAS - 1 + SLOWER)


def _enough_replicas() -> float:
    return float(next(n for n in range(2, 1000) if 1 / (SLOWER_OF_MANY * (n - 1) + 1) < 0.01))


def _times_usual() -> float:
    others = [Paced(THEIRS_MS / 1000, THEIR_LOAD, 0.0, True)] * NEIGHBOURS
    pool = [Paced(MINE_MS / 1000, MY_LOAD, 0.0, True), *others]
    return times_usual(pool, SlowRule(recovered_ratio=1.01))[0]


EXERCISES = (
    Exercise(
        "4.4.1",
        _share_percent,
        "%",
        lambda it: (
            f"It finishes a quarter of what each of the others does: 1 ÷ (4 × 15 + 1) = {it:.2f} % of "
            "the requests. Over 1 %, so P99 is the slow one's pace, P95 and P50 show nothing, and the mean "
            "moves by 5 %."
        ),
        tolerance_ratio=0.04,
        mistakes=lambda: {
            "requests are dealt in turn": 100 / REPLICAS,
            "the slow one is counted among the others": 100 / (SLOWER * REPLICAS + 1),
            "its share of those in flight is given": _in_flight_percent(),
        },
    ),
    Exercise(
        "4.4.2",
        _in_flight_percent,
        "%",
        lambda it: (
            f"Each gets 1/16 of the requests, and the slow one keeps them four times as long: "
            f"4 ÷ (15 + 4) = {it:.0f} %. One in five of your users waits for that one engine at any moment, "
            "and fifteen engines have nothing to do with it."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {
            "the share of requests is given": 100 / REPLICAS,
            "the slow one is counted twice": 100 * SLOWER / (REPLICAS + SLOWER),
            "fewest in flight is asked": _share_percent(),
        },
    ),
    Exercise(
        "4.4.3",
        _enough_replicas,
        "replicas",
        lambda it: (
            f"1 ÷ (3(N − 1) + 1) < 0.01 asks for N > 34: {it:.0f}. In a small pool a slow engine is P99 "
            "whatever you count, and it takes a gateway that looks at the pace; in a large one it hides in "
            "the last half per cent until somebody groups the requests by replica."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "requests are dealt in turn": 101.0,
            "N − 1 is taken for N": 34.0,
        },
    ),
    Exercise(
        "4.4.4",
        _times_usual,
        "times",
        lambda it: (
            f"At its load the others would be allowed 22 × (11 + 1) ÷ (5 + 1) = 44 ms, and it has 45: "
            f"{it:.3g} times. Not slow, but busy. A restart would throw away eleven answers and give the "
            "other seven their load; look at why the gateway sends it twice as much."
        ),
        tolerance_ratio=0.04,
        mistakes=lambda: {
            "the load is left out": MINE_MS / THEIRS_MS,
            "the loads are divided the wrong way": MINE_MS / THEIRS_MS * MY_LOAD / THEIR_LOAD,
        },
    ),
    Exercise(
        "4.4.5",
        lambda: float(floor(MOST_SHARE * POOL)),
        "replicas",
        lambda it: (
            f"At most 0.3 × 12 = 3.6, so {it:.0f}, the worst of the five; the other two keep their full "
            "part, for somebody has to answer. With seven of twelve slow it would be none: then slow is what "
            "is usual, and only the fleet's own TPOT against its target can raise the alarm."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "all that are slow are put aside": float(BAD),
            "the share is rounded up": float(floor(MOST_SHARE * POOL) + 1),
            "the share is taken of the slow ones": float(floor(MOST_SHARE * BAD)),
        },
    ),
)
