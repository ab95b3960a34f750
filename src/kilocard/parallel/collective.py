"""What a collective costs: start-ups, and the bytes that each rank has to send.

n ranks, each with a message of B bytes; a wire starts in α seconds and carries β bytes a second one way.
Textbook forms (Thakur, Rabenseifner, Gropp, IJHPCA 2005; Patarasuk and Yuan, JPDC 2009).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kilocard.errors import KilocardError
from kilocard.parallel.given import amounts, count

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Wire:
    """A way between two ranks: what a message costs however short, and what it carries one way."""

    start_s: float
    bytes_per_s: float

    def __post_init__(self) -> None:
        if not 0 <= self.start_s < float("inf") or not 0 < self.bytes_per_s < float("inf"):
            raise KilocardError(
                f"a wire of {self.start_s} s a start and {self.bytes_per_s} bytes/s: give a start of 0 or "
                "more and a rate over 0"
            )


def message_s(size_bytes: ArrayLike, wire: Wire) -> Floats:
    """One message from one rank to another: α + B / β."""
    return np.asarray(wire.start_s + _bytes(size_bytes) / wire.bytes_per_s)


def ring_s(size_bytes: ArrayLike, ranks: int, wire: Wire) -> Floats:
    """Allreduce in a ring: 2 (n − 1) starts, 2 (n − 1) / n of the message a rank. Fewest bytes."""
    steps = 2 * (check_ranks(ranks) - 1)
    sent = _sent(size_bytes, ranks)
    return np.asarray(steps * wire.start_s + sent / wire.bytes_per_s)


def one_shot_s(size_bytes: ArrayLike, ranks: int, wire: Wire) -> Floats:
    """Allreduce at once: each rank reads what all others have; one start, n − 1 messages over its wire."""
    others = check_ranks(ranks) - 1
    return np.asarray((others > 0) * wire.start_s + others * _bytes(size_bytes) / wire.bytes_per_s)


def two_shot_s(size_bytes: ArrayLike, ranks: int, wire: Wire) -> Floats:
    """Allreduce in two goes: each rank sums one share and hands it to all; two starts, the ring's bytes."""
    several = check_ranks(ranks) > 1
    return np.asarray(several * 2 * wire.start_s + _sent(size_bytes, ranks) / wire.bytes_per_s)


def allreduce_s(size_bytes: ArrayLike, ranks: int, wire: Wire, *, all_to_all: bool = True) -> Floats:
    """The cheapest allreduce of each size; without `all_to_all` wires (PCIe, a network) only the ring."""
    forms = (one_shot_s, two_shot_s, ring_s) if all_to_all else (ring_s,)
    return np.asarray(np.minimum.reduce([form(size_bytes, ranks, wire) for form in forms]))


def all_to_all_s(size_bytes: ArrayLike, ranks: int, wire: Wire) -> Floats:
    """Each rank deals a message of B bytes in all out to the others: n − 1 starts, (n − 1) / n of it sent."""
    others = check_ranks(ranks) - 1
    return np.asarray(others * wire.start_s + others / ranks * _bytes(size_bytes) / wire.bytes_per_s)


def check_ranks(ranks: int) -> int:
    """The number of ranks, refused under 1."""
    return count(ranks, "ranks: a group has 1 or more")


def _sent(size_bytes: ArrayLike, ranks: int) -> Floats:
    return np.asarray(2 * (check_ranks(ranks) - 1) / ranks * _bytes(size_bytes))


def _bytes(size_bytes: ArrayLike) -> Floats:
    return amounts(size_bytes, "bytes")
