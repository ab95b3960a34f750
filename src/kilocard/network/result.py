"""What was measured of a wire."""

from __future__ import annotations

from dataclasses import dataclass

from kilocard.errors import KilocardError
from kilocard.parallel.collective import Wire
from kilocard.parallel.fitted import Fitted


@dataclass(frozen=True, slots=True)
class Trip:
    """A message of a size, one way: the median of n, each until its receipt, less half a round trip."""

    size_bytes: int
    median_s: float
    n: int


@dataclass(frozen=True, slots=True)
class Rate:
    """What a number of connections moved at once, bytes/s: to the other end, and back from it."""

    streams: int
    up_bytes_per_s: float
    down_bytes_per_s: float

    def __post_init__(self) -> None:
        if self.streams < 1 or min(self.up_bytes_per_s, self.down_bytes_per_s) <= 0:
            raise KilocardError(f"{self!r} is no rate: give streams and bytes/s above 0")


@dataclass(frozen=True, slots=True)
class NetworkResult:
    """Round trips of a small message, one-way times by size, rates, and the line through the times."""

    round_trip_p50_s: float
    round_trip_p99_s: float | None
    """None where fewer than 5 of the round trips lie beyond it."""
    round_trips: int
    trips: tuple[Trip, ...]
    rates: tuple[Rate, ...]
    fit: Fitted
    took_s: float
    moved_bytes: int
    kind: str = "measured"

    @property
    def bytes_per_s(self) -> float:
        """The best rate of any test that holds both ways: what a collective can count on."""
        return max(min(rate.up_bytes_per_s, rate.down_bytes_per_s) for rate in self.rates)

    @property
    def wire(self) -> Wire:
        """For arithmetic: the fitted start, and the slower of the fitted bandwidth and the measured rate.

        Where buffers swallow the first kilobytes the line is bent, and its fit flatters large messages.
        """
        return Wire(self.fit.wire.start_s, min(self.fit.wire.bytes_per_s, self.bytes_per_s))
