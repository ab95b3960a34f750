"""Replicas of a cell onto its nodes."""

from __future__ import annotations

from collections.abc import Sequence

from kilocard.errors import KilocardError


def packed(
    counts: Sequence[int], cards: Sequence[int], nodes: Sequence[int], per_node: int
) -> list[tuple[int, tuple[int, ...]]]:
    """(pool, nodes) of each replica: the large ones first; the small ones where most is free, or where that
    leaves no room, where least is."""
    for roomy in (True, False):
        if (rows := _packed(counts, cards, nodes, per_node, roomy)) is not None:
            return rows
    raise KilocardError(f"{sum(counts)} replicas do not go onto {len(nodes)} nodes of {per_node} cards")


def _packed(
    counts: Sequence[int], cards: Sequence[int], nodes: Sequence[int], per_node: int, roomy: bool
) -> list[tuple[int, tuple[int, ...]]] | None:
    free = dict.fromkeys(nodes, per_node)
    rows: list[tuple[int, tuple[int, ...]]] = []
    for p in sorted(range(len(counts)), key=lambda p: (-cards[p], p)):
        for _ in range(counts[p]):
            taken = _taken(free, cards[p], per_node, roomy)
            if taken is None:
                return None
            for node in taken:
                free[node] -= min(cards[p], per_node)
            rows.append((p, taken))
    return rows


def _taken(free: dict[int, int], cards: int, per_node: int, roomy: bool) -> tuple[int, ...] | None:
    if cards > per_node:
        whole = [node for node, left in free.items() if left == per_node]
        many = -(-cards // per_node)
        return tuple(whole[:many]) if len(whole) >= many else None
    fits = [node for node, left in free.items() if left >= cards]
    if not fits:
        return None
    best = max(fits, key=lambda node: free[node]) if roomy else min(fits, key=lambda node: free[node])
    return (best,)
