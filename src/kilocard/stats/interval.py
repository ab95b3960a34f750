"""How far a mean over seeds may be off, and where one run more may come to lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import mean, stdev

from kilocard.errors import KilocardError

SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean of `n` values and the bounds around it."""

    mean: float
    low: float
    high: float
    n: int

    def holds(self, value: float) -> bool:
        """Whether a value lies inside."""
        return self.low <= value <= self.high


def mean_interval(values: Sequence[float], share: float = SHARE) -> Interval:
    """Where the true mean lies with that confidence: mean ± t · s / √n (Student)."""
    return _around(values, share, sqrt(1 / max(len(values), 1)))


def next_interval(values: Sequence[float], share: float = SHARE) -> Interval:
    """Where one value more of the same kind will lie: mean ± t · s · √(1 + 1/n)."""
    return _around(values, share, sqrt(1 + 1 / max(len(values), 1)))


def _around(values: Sequence[float], share: float, width: float) -> Interval:
    from scipy.special import stdtrit  # takes its time to load

    if not 0 < share < 1:
        raise KilocardError(f"a confidence of {share}: give one between 0 and 1, like 0.95")
    if not values:
        raise KilocardError("no values: an interval needs at least one")
    count, middle = len(values), mean(values)
    if count == 1:
        return Interval(middle, -inf, inf, 1)
    reach = float(stdtrit(count - 1, (1 + share) / 2)) * stdev(values) * width
    return Interval(middle, middle - reach, middle + reach, count)
