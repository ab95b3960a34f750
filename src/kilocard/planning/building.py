"""The building: nodes in racks, under switches, in power domains, and the cells in which they are alike."""

from __future__ import annotations

from dataclasses import dataclass

from kilocard.specs.target import Building


@dataclass(frozen=True, slots=True)
class Cell:
    """Nodes that share rack, switch and power domain: which of them is meant makes no difference."""

    rack: int
    switch: int
    power: int
    nodes: tuple[int, ...]


def cells_of(site: Building, one_each: bool = False) -> tuple[Cell, ...]:
    """The site's cells, its racks, switches and domains being filled with nodes in turn; `one_each` makes
    every node its own."""
    found: dict[tuple[int, int, int, int], list[int]] = {}
    for node in range(site.nodes):
        place = (
            node * site.racks // site.nodes,
            node * site.switches // site.nodes,
            node * site.power_domains // site.nodes,
        )
        found.setdefault((*place, node if one_each else 0), []).append(node)
    return tuple(Cell(*place[:3], tuple(nodes)) for place, nodes in found.items())
