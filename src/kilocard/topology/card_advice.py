"""What the links of the cards mean for the layout of an engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kilocard.topology.cores import format_cores
from kilocard.topology.finding import Finding
from kilocard.topology.islands import Group, groups_within, islands, largest_tp
from kilocard.topology.links import MEANINGS, NEARNESS, distance, kind_of
from kilocard.topology.matrix import TopologyMatrix

PEER_TEST = "`nvidia-smi topo -p2p r` says whether they reach each other's memory"


def card_findings(matrix: TopologyMatrix) -> list[Finding]:
    """Islands and the largest TP group, what runs across them, and custom allreduce."""
    if len(matrix.cards) == 1:
        return [Finding("links", "one card", "nothing to link: TP, PP and DP need a second card")]
    return [_islands(matrix), *_across(matrix), *_closest(matrix), *_custom_allreduce(matrix)]


def _islands(matrix: TopologyMatrix) -> Finding:
    groups, most = islands(matrix), largest_tp(matrix)
    if most == 1:
        return Finding(
            "links",
            f"no NVLink or XGMI between the {len(matrix.cards)} cards",
            "every allreduce goes over PCIe, two a layer: TP pays for each token, replicas do not",
            "one replica a card where the model fits it; else try PP beside TP, and measure both",
        )
    named = "; ".join(
        f"{_named(matrix, group)} by {_kinds(matrix, group)}" for group in groups if len(group) > 1
    )
    if len(groups) == 1:
        return Finding(
            "links", named, f"every card reaches every other by its own wire: TP up to {most} stays on it"
        )
    return Finding(
        "links",
        f"islands: {named}{_alone(matrix, groups)}",
        f"the largest TP group that stays on the fast link has {most} cards",
        f"TP of {most} or less, its cards from one island (CUDA_VISIBLE_DEVICES); scale by replicas",
    )


def _across(matrix: TopologyMatrix) -> Iterable[Finding]:
    """The links that a TP group over all cards would have to use, from the nearest to the farthest."""
    for kind in NEARNESS[1:]:
        pairs = [pair for pair in _pairs(matrix) if kind_of(matrix.card_links[pair[0]][pair[1]]) == kind]
        if not pairs:
            continue
        change = (
            "" if kind in ("PIX", "PXB") else f"no TP over these pairs where it can be helped; {PEER_TEST}"
        )
        yield Finding(f"pairs over {kind}", _pairs_named(matrix, pairs), MEANINGS[kind], change)


def _closest(matrix: TopologyMatrix) -> Iterable[Finding]:
    links = [matrix.card_links[a][b] for a, b in _pairs(matrix)]
    nearest = kind_of(min(links, key=distance))
    if nearest in (None, "NV") or len({kind_of(link) for link in links}) == 1:
        return
    near = [group for group in groups_within(matrix, nearest) if len(group) > 1]
    if near:
        yield Finding(
            "closest cards",
            "; ".join(_named(matrix, group) for group in near),
            "of the cards on PCIe, these have the fewest bridges between them",
            "if TP must be, use one of these groups",
        )


def _custom_allreduce(matrix: TopologyMatrix) -> Iterable[Finding]:
    """vLLM's gate: more than two cards of a group need NVLink between all of them (custom_all_reduce.py)."""
    if len(matrix.cards) > 2 and len(islands(matrix)) > 1:
        yield Finding(
            "custom allreduce",
            f"{len(matrix.cards)} cards that are not fully linked",
            "for a group of more than two that lacks a link vLLM turns its own allreduce off: NCCL does it",
            "nothing to mend; an island keeps it, and so do two cards that reach each other's memory",
        )


def nic_findings(matrix: TopologyMatrix) -> list[Finding]:
    """Which NIC each card has nearest, and which cards have one only across the sockets."""
    if not matrix.nics:
        return []
    nearest: dict[tuple[str, tuple[str, ...]], Group] = {}
    for card in range(len(matrix.cards)):
        near = nearest_nics(matrix, card)
        nearest[near] = (*nearest.get(near, ()), card)
    far = [card for (link, _), cards in nearest.items() for card in cards if _is_far(link)]
    named = "; ".join(
        f"{_named(matrix, cards)}: {', '.join(nics)} ({link})"
        for (link, nics), cards in nearest.items()
        if not _is_far(link)
    )
    findings = []
    if named:
        findings.append(
            Finding(
                "nearest NICs",
                named,
                "what a card sends to another machine leaves by these with the least on the way",
                "NCCL finds them itself; where a container or VM hides them, name them in NCCL_IB_HCA",
            )
        )
    if far:
        findings.append(
            Finding(
                "cards without a NIC",
                f"{_named(matrix, tuple(far))}: every NIC lies across the sockets (SYS)",
                "their traffic to other machines crosses the wire between the CPUs, which the others share",
                "let a card with a near NIC talk to other machines, or move a NIC to that socket",
            )
        )
    return findings


def _is_far(link: str) -> bool:
    return distance(link) >= distance("SYS")


def nearest_nics(matrix: TopologyMatrix, card: int) -> tuple[str, tuple[str, ...]]:
    """The nearest link of a card to a NIC, and the NICs that have it."""
    row = matrix.nic_links[card]
    link = min(row, key=distance)
    return link, tuple(nic for nic, has in zip(matrix.nics, row, strict=True) if has == link)


def _kinds(matrix: TopologyMatrix, group: Group) -> str:
    links = {matrix.card_links[a][b] for a in group for b in group if a < b}
    return " and ".join(sorted(links, key=lambda link: (len(link), link)))


def _alone(matrix: TopologyMatrix, groups: Sequence[Group]) -> str:
    alone = tuple(group[0] for group in groups if len(group) == 1)
    return f"; alone: {_named(matrix, alone)}" if alone else ""


def _named(matrix: TopologyMatrix, group: Group) -> str:
    return f"GPU{format_cores(int(matrix.cards[card].removeprefix('GPU')) for card in group)}"


def _pairs(matrix: TopologyMatrix) -> list[tuple[int, int]]:
    count = range(len(matrix.cards))
    return [(a, b) for a in count for b in count if a < b]


def _pairs_named(matrix: TopologyMatrix, pairs: Sequence[tuple[int, int]]) -> str:
    shown = ", ".join(f"{matrix.cards[a]}-{matrix.cards[b]}" for a, b in pairs[:6])
    return f"{shown} and {len(pairs) - 6} more" if len(pairs) > 6 else shown
