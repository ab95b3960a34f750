"""A wire read off measured times: a start, a rate, and where one rate will not do, a second one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kilocard.errors import KilocardError
from kilocard.parallel.collective import Wire

Floats = NDArray[np.float64]
OUTLIER = 0.1
"""A relative residual beyond it pulls less (Huber's weights): one disturbed size does not bend the line."""
PASSES = 8
FEWEST = 2
FEWEST_OF_TWO_RATES = 6


class NoRateError(KilocardError):
    """The start hides the bytes: larger messages took no longer."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """start + bytes / rate, and beyond `long_bytes` at `long_share` of the rate; `errors` is fitted ÷
    measured − 1 of each time, in the order given."""

    wire: Wire
    errors: tuple[float, ...]
    long_bytes: float | None = None
    long_share: float = 1.0

    @property
    def median_error(self) -> float:
        """The median of |error|."""
        return float(np.median(np.abs(self.errors)))

    @property
    def worst_error(self) -> float:
        """The largest |error|."""
        return float(np.max(np.abs(self.errors)))

    def seconds(self, moved_bytes: ArrayLike) -> Floats:
        """What the line says of so many bytes moved."""
        moved = np.asarray(moved_bytes, dtype=float)
        knee = np.inf if self.long_bytes is None else self.long_bytes
        long = np.maximum(moved - knee, 0) / self.long_share
        return np.asarray(self.wire.start_s + (np.minimum(moved, knee) + long) / self.wire.bytes_per_s)


def fit_wire(moved_bytes: Sequence[float], seconds: Sequence[float]) -> Fitted:
    """One start and one rate: least squares of relative errors, so that a kilobyte counts as a megabyte does.

    `moved_bytes` is what a rank sends: 2 (n − 1) / n of an allreduce's message. Raises KilocardError where
    there are too few sizes, or a time is not positive; NoRateError where larger messages took no longer.
    """
    moved, lasted = _checked(moved_bytes, seconds, FEWEST)
    start_s, per_byte_s = _nearest(np.stack([np.ones_like(moved), moved], axis=1), lasted)
    return _with_errors(Wire(float(start_s), _rate(per_byte_s)), moved, lasted)


def fit_two_rates(moved_bytes: Sequence[float], seconds: Sequence[float]) -> Fitted:
    """One start and two rates, the second beyond one of the sizes measured: the knee that fits best.

    It needs 6 sizes or more. Raises KilocardError as `fit_wire` does.
    """
    moved, lasted = _checked(moved_bytes, seconds, FEWEST_OF_TWO_RATES)
    knees = np.unique(moved)[1:-2]
    tried = [_bent(moved, lasted, float(knee)) for knee in knees]
    return min(tried, key=lambda it: float(np.sum(_huber(np.asarray(it.errors)))))


def _bent(moved: Floats, lasted: Floats, knee: float) -> Fitted:
    terms = np.stack([np.ones_like(moved), np.minimum(moved, knee), np.maximum(moved - knee, 0)], axis=1)
    start_s, short_s, long_s = _nearest(terms, lasted)
    if not short_s or not long_s:
        return fit_wire(moved.tolist(), lasted.tolist())
    return _with_errors(Wire(float(start_s), _rate(short_s)), moved, lasted, knee, float(short_s / long_s))


def _with_errors(
    wire: Wire, moved: Floats, lasted: Floats, long_bytes: float | None = None, long_share: float = 1.0
) -> Fitted:
    line = Fitted(wire, (), long_bytes, long_share)
    return Fitted(wire, tuple((line.seconds(moved) / lasted - 1).tolist()), long_bytes, long_share)


def _nearest(terms: Floats, lasted: Floats) -> Floats:
    """Coefficients of 0 or more that make `terms` nearest to `lasted`, relatively, outliers held back."""
    relative = terms / lasted[:, None]
    weights = np.ones_like(lasted)
    for _ in range(PASSES):
        found = _not_negative(relative * weights[:, None], weights)
        off = np.abs(relative @ found - 1)
        if off.max() <= OUTLIER:
            break
        weights = np.sqrt(OUTLIER / np.maximum(off, OUTLIER))
    return found


def _not_negative(terms: Floats, target: Floats) -> Floats:
    """Least squares over each choice of the columns: the best of those without a negative coefficient."""
    columns = range(terms.shape[1])
    tried = [
        _solved(terms, target, list(chosen)) for size in columns for chosen in combinations(columns, size + 1)
    ]
    allowed = [found for found in tried if (found >= 0).all()]
    return min(allowed, key=lambda found: float(np.sum((terms @ found - target) ** 2)))


def _solved(terms: Floats, target: Floats, chosen: list[int]) -> Floats:
    scale = np.linalg.norm(terms[:, chosen], axis=0)
    found = np.zeros(terms.shape[1])
    found[chosen] = np.linalg.lstsq(terms[:, chosen] / scale, target, rcond=None)[0] / scale
    return found


def _huber(errors: Floats) -> Floats:
    size = np.abs(errors)
    return np.where(size <= OUTLIER, size**2, OUTLIER * (2 * size - OUTLIER))


def _rate(per_byte_s: float) -> float:
    if per_byte_s <= 0:
        raise NoRateError("larger messages took no longer: there is no rate to fit, measure larger ones")
    return 1 / float(per_byte_s)


def _checked(moved_bytes: Sequence[float], seconds: Sequence[float], fewest: int) -> tuple[Floats, Floats]:
    moved, lasted = np.asarray(moved_bytes, dtype=float), np.asarray(seconds, dtype=float)
    if moved.shape != lasted.shape or moved.ndim != 1 or len(np.unique(moved)) < fewest:
        raise KilocardError(
            f"{lasted.size} times of {len(np.unique(moved))} sizes: give a time for each size, and "
            f"{fewest} sizes or more"
        )
    for name, values in (("size", moved), ("time", lasted)):
        bad = values[~((values > 0) & np.isfinite(values))]
        if bad.size:
            raise KilocardError(f"a {name} of {bad[0]:g}: sizes and times are over 0")
    return moved, lasted
