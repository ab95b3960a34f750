"""What a group's allreduce costs over the wires that it has: inside a machine, and from one to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.card import Card
from kilocard.facts.link import Link
from kilocard.parallel.collective import Wire, check_ranks
from kilocard.parallel.given import amounts, count
from kilocard.specs.interconnect import CARDS_PER_NODE, Interconnect

Floats = NDArray[np.float64]

START_S = 10e-6
"""An allreduce of two cards where nobody has measured the link's: as fitted on H100 with NVLink."""
SHARE = 0.5
"""Of the one-way rate, as engines reached on H100 with NVLink, where nobody has measured the link's."""
LONG_BYTES = 32 * 2**20
"""Messages over it moved at another rate in the published batches that showed any (Splitwise)."""
LEAST_SHARE = 1e-6


@dataclass(frozen=True, slots=True)
class Fabric:
    """Wires as an engine reaches them: `start_s` is an allreduce of two, the rate what a ring moves one way.

    A start grows with the group's logarithm, as fitted to published step times at TP 2 and 4. Bytes of a
    message beyond 32 MiB move at `long_share` of the rate.
    """

    inside: Wire
    across: Wire | None = None
    cards_per_node: int = CARDS_PER_NODE
    long_share: float = 1.0

    def __post_init__(self) -> None:
        count(self.cards_per_node, "cards a machine: give 1 or more")
        amounts(self.long_share, "of the rate for long messages", LEAST_SHARE)

    def allreduce_s(self, size_bytes: ArrayLike, ranks: int) -> Floats:
        """An allreduce of messages of that size; a group beyond a machine reduces inside, across, inside."""
        nodes = self.nodes(ranks)
        if nodes == 1:
            return self._group_s(size_bytes, ranks, self.inside)
        each = ranks // nodes
        inside_s = self._group_s(size_bytes, each, self.inside)
        return inside_s + self._group_s(amounts(size_bytes, "bytes") / each, nodes, self._network())

    def send_s(self, size_bytes: ArrayLike, between_machines: bool = False) -> Floats:
        """A message from one stage of a pipeline to the next."""
        wire = self._network() if between_machines else self.inside
        return np.asarray(wire.start_s + amounts(size_bytes, "bytes") / wire.bytes_per_s)

    def nodes(self, ranks: int) -> int:
        """Machines that a group spans; refused where it would not fill each alike."""
        nodes = -(-check_ranks(ranks) // self.cards_per_node)
        if ranks % nodes:
            raise KilocardError(
                f"{ranks} cards are not spread evenly over {nodes} machines of {self.cards_per_node}: "
                "take a degree that is"
            )
        return nodes

    def _network(self) -> Wire:
        if self.across is None:
            raise KilocardError("no network is known that joins the machines: name one")
        return self.across

    def _group_s(self, size_bytes: ArrayLike, ranks: int, wire: Wire) -> Floats:
        size = amounts(size_bytes, "bytes")
        if ranks == 1:
            return np.zeros_like(size)
        moved = np.minimum(size, LONG_BYTES) + np.maximum(size - LONG_BYTES, 0) / self.long_share
        start_s = wire.start_s * (1 + math.log2(ranks / 2))
        return np.asarray(start_s + 2 * (ranks - 1) / ranks * moved / wire.bytes_per_s)


def fabric(
    card: Card | str,
    interconnect: Interconnect | None = None,
    *,
    start_s: float | None = None,
    share: float | None = None,
    long_share: float = 1.0,
) -> Fabric:
    """The wires between such cards as an engine reaches them.

    `start_s` and `share` are what an engine was found to reach over the card's own link; another link and the
    network are taken to be as much worse or better than in the tests of `measured_source`. Without them those
    tests themselves speak. Raises KilocardError where the rate of a link is unknown.
    """
    card, joined = facts.card(card), interconnect or Interconnect()
    own, inside = facts.link(card.link), facts.link(joined.link or card.link)
    reached = _start_s(own) if start_s is None else start_s, _share(own) if share is None else share
    network = facts.link(joined.network)
    shared_by = joined.cards_per_node if network.shared_by_machine else 1
    return Fabric(
        inside=_wire(inside, own, reached, 1, card),
        across=None if network.one_way_bytes_per_s is None else _wire(network, own, reached, shared_by, card),
        cards_per_node=joined.cards_per_node,
        long_share=long_share,
    )


def _wire(link: Link, own: Link, reached: tuple[float, float], shared_by: int, card: Card) -> Wire:
    if link.one_way_bytes_per_s is None:
        raise KilocardError(
            f"no rate is known for the link {link.id} of {card.id}: name another link, or give {link.id} a "
            "row of your own with --facts"
        )
    start_s, share = carried_over_link(reached, own, link)
    return Wire(start_s, link.one_way_bytes_per_s * share / shared_by)


def carried_over_link(reached: tuple[float, float], own: Link, other: Link) -> tuple[float, float]:
    """Start and share that an engine reached over one link, for another: as the tests of the two compare."""
    if other.id == own.id:
        return reached
    start_s, share = reached
    return start_s * _start_s(other) / _start_s(own), share * _share(other) / _share(own)


def _start_s(link: Link) -> float:
    return START_S if link.allreduce_start_us is None else link.allreduce_start_us * 1e-6


def _share(link: Link) -> float:
    return SHARE if link.allreduce_share is None else link.allreduce_share
