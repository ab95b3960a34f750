"""Weights from what each replica has lately done: equal cards are not equal.

A weight is relative to the other replicas of a pool; the quick ones of it have 1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf

from kilocard.errors import KilocardError

MOST_SEEN = 256
PERCENT = 95
QUICK_PART = 4
"""The quickest of so many sets the measure: with more, one that is quick by chance does not."""


@dataclass(frozen=True, slots=True)
class WeightRule:
    """Weights go from `least` to 1 and follow what is seen within about `memory_s`; a P95 takes `fewest`
    answers of that time, or nothing is said of the replica."""

    least: float = 0.25
    memory_s: float = 60.0
    fewest: int = 20

    def __post_init__(self) -> None:
        if not 0 < self.least <= 1:
            raise KilocardError(f"the least weight is {self.least}: give a share above 0, at most 1")
        if not 0 < self.memory_s < inf:
            raise KilocardError(f"memory_s is {self.memory_s}: give seconds above 0")
        if not 1 <= self.fewest <= MOST_SEEN:
            raise KilocardError(f"fewest is {self.fewest}: give 1 to {MOST_SEEN}, the most that are kept")


class Latencies:
    """The last answers of one replica: when each came and how long it took, in what the caller compares
    (seconds a token, say: those of whole answers differ with their lengths)."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=MOST_SEEN)

    def saw(self, seconds: float, now_s: float) -> None:
        """One more."""
        self._seen.append((now_s, seconds))

    def forget(self) -> None:
        """The engine is another now."""
        self._seen.clear()

    def p95_s(self, rule: WeightRule, now_s: float) -> float:
        """The 95th percentile of those within `memory_s`; 0 where they are too few."""
        while self._seen and self._seen[0][0] < now_s - rule.memory_s:
            self._seen.popleft()
        if len(self._seen) < rule.fewest:
            return 0.0
        took = sorted(seconds for _, seconds in self._seen)
        return took[-(-len(took) * PERCENT // 100) - 1]


def wanted_weights(p95_s: Sequence[float], utilization: Sequence[float], rule: WeightRule) -> list[float]:
    """The weight that each replica of a pool should have, by P95 × (1 + utilization): of two that are as
    quick the less busy one gets more, twice as much at the most.

    p95_s: 0 where nothing is known; such a one is taken as quick. utilization: shares of the time, 0 to 1.
    """
    costs = [
        seconds * (1 + min(1.0, max(0.0, used))) for seconds, used in zip(p95_s, utilization, strict=True)
    ]
    known = sorted(cost for cost in costs if cost > 0)
    if not known:
        return [1.0] * len(costs)
    quick = known[(len(known) - 1) // QUICK_PART]
    return [max(rule.least, min(1.0, quick / cost)) if cost > 0 else 1.0 for cost in costs]


def eased(weights: Sequence[float], wanted: Sequence[float], rule: WeightRule, gone_s: float) -> list[float]:
    """The weights `gone_s` later: on their way to what is wanted, of which 1 − 1/e is gone after
    `memory_s`."""
    kept = exp(-max(0.0, gone_s) / rule.memory_s)
    return [kept * weight + (1 - kept) * goal for weight, goal in zip(weights, wanted, strict=True)]
