"""Which cores to pin which rank to."""

from __future__ import annotations

from collections.abc import Sequence

from kilocard.errors import KilocardError
from kilocard.topology.cores import format_cores
from kilocard.topology.host import Host

Share = tuple[int, ...]


def pin_ranks(host: Host, ranks: int) -> tuple[Share, ...]:
    """Equal shares of cores by rank, one thread of a physical core, none across two NUMA nodes.

    One core, or two of more than eight, are left to the client and the front end where there are enough.
    """
    if ranks < 1:
        raise KilocardError(f"{ranks} ranks: give 1 or more")
    nodes = _lent(host, ranks)
    if (lent := sum(map(len, nodes))) < ranks:
        raise KilocardError(f"{ranks} ranks need {ranks} physical cores and this box lends {lent}: use fewer")
    counts = _ranks_by_node(nodes, ranks)
    each = min(len(node) // count for node, count in zip(nodes, counts, strict=True) if count)
    return tuple(
        tuple(node[rank * each : (rank + 1) * each])
        for node, count in zip(nodes, counts, strict=True)
        for rank in range(count)
    )


def spare_cores(cores: int, ranks: int) -> int:
    """Cores left to the client and the front end: one, or two of more than eight, while ranks have enough."""
    return min(2 if cores > 8 else 1, max(cores - ranks, 0))


def omp_bind(shares: Sequence[Share]) -> str:
    """The shares as VLLM_CPU_OMP_THREADS_BIND takes them: `0-3|4-7`."""
    return "|".join(map(format_cores, shares))


def pin_cards(host: Host, cores: Sequence[Share | None], nodes: Sequence[int | None]) -> tuple[Share, ...]:
    """Cores beside each card, shared out among the cards that have the same ones; () where none is known."""
    beside = [_beside(host, *card) for card in zip(cores, nodes, strict=True)]
    shares = []
    for card, mine in enumerate(beside):
        sharing = [other for other, theirs in enumerate(beside) if theirs == mine]
        each, place = len(mine) // len(sharing), sharing.index(card)
        shares.append(mine[place * each : (place + 1) * each])
    return tuple(shares)


def _beside(host: Host, cores: Share | None, node: int | None) -> Share:
    near = set(cores) if cores is not None else set(host.cores_of(node))
    return tuple(core for core in host.physical_cores if core in near)


def _lent(host: Host, ranks: int) -> list[list[int]]:
    """Physical cores by node, without the spare ones, which the largest node gives."""
    physical = set(host.physical_cores)
    nodes = [[core for core in cores if core in physical] for cores in host.cores_by_node.values()]
    for _ in range(spare_cores(sum(map(len, nodes)), ranks)):
        max(reversed(nodes), key=len).pop()
    return nodes


def _ranks_by_node(nodes: Sequence[Sequence[int]], ranks: int) -> list[int]:
    """How many ranks each node takes, so that the smallest share is as large as can be."""
    counts = [0] * len(nodes)
    for _ in range(ranks):
        roomiest = max(range(len(nodes)), key=lambda node: (len(nodes[node]) / (counts[node] + 1), -node))
        counts[roomiest] += 1
    return counts
