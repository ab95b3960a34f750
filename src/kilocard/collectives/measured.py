"""What a collective between processes of this box was measured to take."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilocard.collectives.work import Operation
from kilocard.errors import KilocardError
from kilocard.record import Stamp

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SizeTime:
    """One size: the median of n repetitions, from the last rank's call to the last rank's return, and the
    quartiles about it."""

    size_bytes: int
    seconds: float
    n: int
    p25_s: float
    p75_s: float

    def __post_init__(self) -> None:
        if not 0 < self.p25_s <= self.seconds <= self.p75_s < math.inf or self.size_bytes < 1 or self.n < 1:
            raise KilocardError(f"{self!r} is no measured time: quartiles stand about the median, all over 0")


@dataclass(frozen=True, slots=True)
class Measured:
    """Times by size, what moves of a message, and what two processes copy at best.

    `copy_bytes_per_s`: each rank at once copies a neighbour's memory, once and far beyond a core's own cache.
    `pinned`: each rank stayed on a core of its own.
    """

    operation: Operation
    ranks: int
    times: tuple[SizeTime, ...]
    copy_bytes_per_s: float
    pinned: bool
    took_s: float
    stamp: Stamp

    def __post_init__(self) -> None:
        if not self.times or self.ranks < 2 or not self.copy_bytes_per_s > 0:
            raise KilocardError("a measured collective has 2 ranks or more, times, and a rate of copying")

    @property
    def sizes_bytes(self) -> list[int]:
        """The message of each rank."""
        return [it.size_bytes for it in self.times]

    @property
    def seconds(self) -> list[float]:
        """The median of each size."""
        return [it.seconds for it in self.times]

    @property
    def moved_bytes(self) -> list[float]:
        """What a rank sends at least, of each size: 2 (n − 1) / n of an allreduce's message."""
        return [self.operation.moved_share(self.ranks) * size for size in self.sizes_bytes]

    @property
    def bytes_per_s(self) -> Floats:
        """Moved bytes over the median: for an allreduce what nccl-tests call bus bandwidth."""
        return np.asarray(np.asarray(self.moved_bytes) / np.asarray(self.seconds))
