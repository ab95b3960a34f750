"""When requests arrive in an open loop."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kilocard.workload.limits import RATES_PER_S, SPREADS, require, require_within

Process = Literal["constant", "poisson", "gamma"]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Open-loop arrivals at a rate, or on a linear ramp from it to `end_rate_per_s` over `ramp_s`.

    Gaps of mean 1 (constant, exponential, or gamma with coefficient of variation `cv`) are summed and then
    mapped through the inverse of the integrated rate, so every process can follow every ramp.
    """

    rate_per_s: float
    process: Process = "poisson"
    cv: float = 1.0
    end_rate_per_s: float | None = None
    ramp_s: float | None = None

    def __post_init__(self) -> None:
        require_within("a rate in requests/s", self.rate_per_s, RATES_PER_S)
        require(
            self.process in ("constant", "poisson", "gamma"),
            f"unknown arrivals {self.process!r}: use constant, poisson or gamma",
        )
        require_within("a cv (for equal gaps use the constant process)", self.cv, SPREADS)
        require(
            (self.end_rate_per_s is None) == (self.ramp_s is None), "a ramp needs end_rate_per_s and ramp_s"
        )
        if self.end_rate_per_s is not None and self.ramp_s is not None:
            require_within("an end rate in requests/s", self.end_rate_per_s, RATES_PER_S)
            require(0 < self.ramp_s < inf, f"a ramp over {self.ramp_s} s is not possible: use a time above 0")

    def times(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Seconds from the start of the stage, ascending, of `count` arrivals."""
        unit = np.cumsum(self._unit_gaps(count, rng))
        if self.end_rate_per_s is None or self.ramp_s is None:
            return unit / self.rate_per_s
        return _ramp_times(unit, self.rate_per_s, self.end_rate_per_s, self.ramp_s)

    def _unit_gaps(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        if self.process == "constant":
            return np.ones(count)
        if self.process == "poisson":
            return rng.exponential(1.0, count)
        shape = self.cv**-2
        return rng.gamma(shape, 1 / shape, count)


def _ramp_times(unit: NDArray[np.float64], start: float, end: float, ramp_s: float) -> NDArray[np.float64]:
    """Solve start·t + slope·t²/2 = unit inside the ramp; past its end the rate stays at `end`."""
    slope, area = (end - start) / ramp_s, (start + end) / 2 * ramp_s
    root = np.sqrt(np.maximum(start**2 + 2 * slope * np.minimum(unit, area), 0.0))
    inside: NDArray[np.float64] = 2 * np.minimum(unit, area) / (start + root)
    return inside + np.maximum(unit - area, 0.0) / end
