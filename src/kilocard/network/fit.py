"""A straight line through the times of messages: time = start + bytes / bandwidth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kilocard.errors import KilocardError
from kilocard.parallel.collective import Wire, message_s


@dataclass(frozen=True, slots=True)
class WireFit:
    """A fitted wire, and how far it is off: the median of |fitted - measured| / measured."""

    wire: Wire
    median_error: float


def fit_wire(sizes_bytes: Sequence[float], times_s: Sequence[float]) -> WireFit:
    """Least squares of relative errors: a kilobyte counts as a megabyte does; no start below 0."""
    if len(sizes_bytes) != len(times_s) or len(set(sizes_bytes)) < 2:
        raise KilocardError(f"{len(times_s)} times of {len(set(sizes_bytes))} sizes: a line needs 2 or more")
    if not all(0 < time < math.inf for time in times_s):
        raise KilocardError("a time that is no positive number: measure again")
    points = [(1 / time, size / time) for size, time in zip(sizes_bytes, times_s, strict=True)]
    start_s, s_per_byte = _solved(points)
    if start_s < 0:
        start_s, s_per_byte = 0.0, sum(b for _, b in points) / sum(b * b for _, b in points)
    if s_per_byte <= 0:  # the start hides the bytes: the wire carries at least what the largest message shows
        start_s, s_per_byte = min(times_s), max(times_s) / max(sizes_bytes)
    wire = Wire(start_s, 1 / s_per_byte)
    off = [
        abs(fitted / time - 1)
        for fitted, time in zip(message_s(sizes_bytes, wire).tolist(), times_s, strict=True)
    ]
    return WireFit(wire, median(off))


def _solved(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The x, y for which x a + y b is nearest to 1 over all (a, b)."""
    aa, ab, bb = (sum(p[i] * p[j] for p in points) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = sum(p[0] for p in points), sum(p[1] for p in points)
    scale = aa * bb - ab * ab
    if scale <= 0:
        raise KilocardError("the sizes are too alike for a line: measure more of them")
    return (a * bb - b * ab) / scale, (b * aa - a * ab) / scale
