"""What the ranks are told to do, and how often: the same for all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from typing import Any

from kilocard.errors import KilocardError

KIB, MIB, GIB = 2**10, 2**20, 2**30
SIZES_BYTES = tuple(2**power for power in range(10, 27))
"""1 KiB to 64 MiB: from a token of a small model to the prefill of a large one."""
ELEMENT_BYTES = 4
LARGEST_BYTES = GIB
MOST_RANKS = 64
ROUND_BYTES = 16 * MIB
FEWEST_A_ROUND, MOST_A_ROUND = 2, 25
COPY_BYTES = 64 * MIB
LONGEST_S = 86_400.0


class Operation(StrEnum):
    """A collective of torch.distributed."""

    ALLREDUCE = "allreduce"
    SEND = "send"
    ALL_TO_ALL = "all-to-all"

    def moved_share(self, ranks: int) -> float:
        """What a rank has to send at least, as a share of its message; of a send, all."""
        shares = {
            Operation.ALLREDUCE: 2 * (ranks - 1) / ranks,
            Operation.SEND: 1.0,
            Operation.ALL_TO_ALL: (ranks - 1) / ranks,
        }
        return shares[self]


@dataclass(frozen=True, slots=True)
class Work:
    """One measurement: rounds over all sizes until the time is spent; a disturbance meets them all."""

    operation: str
    ranks: int
    sizes_bytes: tuple[int, ...]
    budget_s: float
    copy_bytes: int = COPY_BYTES
    fewest_rounds: int = 3


def a_round(size_bytes: int) -> int:
    """Repetitions of a size in one round: many of the small, a few of the large."""
    return max(FEWEST_A_ROUND, min(MOST_A_ROUND, ROUND_BYTES // size_bytes))


def checked_ranks(ranks: int) -> int:
    """The number of ranks, refused where it is no group."""
    if isinstance(ranks, bool) or not isinstance(ranks, int) or not 2 <= ranks <= MOST_RANKS:
        raise KilocardError(f"{ranks} ranks: a collective has 2 to {MOST_RANKS} on a box")
    return ranks


def checked_sizes(sizes_bytes: Iterable[int], ranks: int) -> tuple[int, ...]:
    """The sizes in order, each once; refused where the ranks could not share one out evenly."""
    unit, sizes = ELEMENT_BYTES * ranks, _each(sizes_bytes)
    for size in sizes:
        whole = isinstance(size, int) and not isinstance(size, bool)
        if not whole or not 0 < size <= LARGEST_BYTES or size % unit:
            raise KilocardError(
                f"a message of {size} bytes: give multiples of {unit} bytes (4-byte numbers, {ranks} ranks) "
                f"up to {LARGEST_BYTES:,}"
            )
    if not sizes:
        raise KilocardError("no sizes: name one or more, in bytes")
    return tuple(sorted(set(sizes)))


def checked_seconds(name: str, seconds: Any, least_s: float = 0.0) -> float:
    """So many seconds, refused where they are none, or more than a day."""
    number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not number or not math.isfinite(seconds) or not least_s <= seconds <= LONGEST_S:
        raise KilocardError(f"{name} {seconds!r}: give seconds from {least_s:g} to {LONGEST_S:g}")
    return float(seconds)


def _each(sizes_bytes: Any) -> tuple[Any, ...]:
    try:
        return tuple(sizes_bytes)
    except TypeError as error:
        raise KilocardError(f"sizes_bytes {sizes_bytes!r}: give a list of sizes, in bytes") from error
