"""Which cards of a box hang together by links of a kind: the groups that tensor parallelism may span."""

from __future__ import annotations

from kilocard.topology.links import NEARNESS, distance
from kilocard.topology.matrix import TopologyMatrix

Group = tuple[int, ...]


def islands(matrix: TopologyMatrix) -> tuple[Group, ...]:
    """Cards, by number, in groups whose every pair has NVLink or XGMI; a lone card is a group of one."""
    return groups_within(matrix, "NV")


def groups_within(matrix: TopologyMatrix, farthest: str) -> tuple[Group, ...]:
    """Cards in groups whose every pair is linked by `farthest` or nearer; the largest group is taken first.

    `farthest` is NV, PIX, PXB, PHB, NODE or SYS. A link need not carry over: of a chain of three cards,
    two make a group.
    """
    limit = NEARNESS.index(farthest)
    near = [{b for b, link in enumerate(row) if distance(link) <= limit} for row in matrix.card_links]
    left = set(range(len(matrix.cards)))
    groups = []
    while left:
        group = _largest((), sorted(left), near)
        groups.append(group)
        left -= set(group)
    return tuple(sorted(groups))


def largest_tp(matrix: TopologyMatrix) -> int:
    """The largest power of two of cards fully linked by NVLink or XGMI: a TP group that stays on it."""
    most = max(len(group) for group in islands(matrix))
    return int(2 ** (most.bit_length() - 1))


def _largest(chosen: Group, candidates: list[int], near: list[set[int]], least: int = 0) -> Group:
    """The first of the largest groups that hold `chosen` and only candidates; () where none beats `least`."""
    if not candidates:
        return chosen if len(chosen) > least else ()
    best: Group = ()
    for place, card in enumerate(candidates):
        if len(chosen) + len(candidates) - place <= max(least, len(best)):
            break
        rest = [other for other in candidates[place + 1 :] if other in near[card]]
        best = _largest((*chosen, card), rest, near, max(least, len(best))) or best
    return best
