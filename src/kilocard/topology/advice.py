"""From the wiring of a box to what it means and what to change."""

from __future__ import annotations

from collections.abc import Iterable

from kilocard.topology.card_advice import card_findings, nic_findings
from kilocard.topology.cores import format_cores
from kilocard.topology.finding import Finding
from kilocard.topology.host import Host
from kilocard.topology.host_advice import host_findings, network_findings
from kilocard.topology.matrix import TopologyMatrix
from kilocard.topology.pinning import pin_cards

CPU_RANKS = 2
"""Ranks that a box without cards is judged for unless told: the least that need a layout."""


def advise(matrix: TopologyMatrix | None, host: Host, ranks: int | None = None) -> list[Finding]:
    """All findings, cards first; `ranks` are the cards unless given, or 2 without cards."""
    count = ranks or (len(matrix.cards) if matrix else CPU_RANKS)
    ours = host_findings(host, count, on_cpu=matrix is None)
    if matrix is None:
        return [*ours, *network_findings(host)]
    cards = [*card_findings(matrix), *nic_findings(matrix)]
    return [*cards, *ours, *_hidden(matrix, host), *_pinned(matrix, host), *network_findings(host)]


def pinning_of(matrix: TopologyMatrix, host: Host) -> dict[str, str]:
    """Cores for each card's rank, as taskset and numactl take them; '' where none beside it is usable."""
    shares = pin_cards(host, matrix.cores, matrix.numa_nodes)
    return {card: format_cores(share) for card, share in zip(matrix.cards, shares, strict=True)}


def _hidden(matrix: TopologyMatrix, host: Host) -> Iterable[Finding]:
    """Cards beside which no core may be used: a container's cpuset leaves their node out."""
    told = [matrix.cores[card] or matrix.numa_nodes[card] is not None for card in range(len(matrix.cards))]
    pinned = pinning_of(matrix, host)
    bare = [card for card, known in enumerate(told) if known and not pinned[matrix.cards[card]]]
    if not bare:
        return
    nodes = sorted({node for card in bare if (node := matrix.numa_nodes[card]) is not None})
    where = f" of NUMA node {format_cores(nodes)}" if nodes else ""
    yield Finding(
        "cards without cores",
        f"{', '.join(matrix.cards[card] for card in bare)}: no usable core{where} beside them",
        "this process, or its container's cpuset, has no core there: their ranks run on a far node",
        f"give the container cores{where} (docker: --cpuset-cpus), or use the cards that have some",
    )


def _pinned(matrix: TopologyMatrix, host: Host) -> Iterable[Finding]:
    pinned = {card: cores for card, cores in pinning_of(matrix, host).items() if cores}
    nodes = [node for node in matrix.numa_nodes if node is not None]
    spread = len(host.nodes) > 1 or len(set(nodes)) > 1
    if not (pinned and spread) or len(nodes) < len(matrix.cards):
        return
    yield Finding(
        "pinning",
        "; ".join(f"{card} on {cores}" for card, cores in pinned.items()),
        "a rank's Python beside its card; measured gains are 0 to 2 %, and one case lost 43 % (vllm#55416)",
        f"try `--numa-bind --numa-bind-nodes {' '.join(map(str, nodes))}` (needs numactl), and measure both",
    )
