"""Where replicas stand: no group crosses a machine or a switch, no rack and no power domain holds too many of
a pool; a mixed-integer program, solved by HiGHS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor

from kilocard.errors import KilocardError
from kilocard.planning.building import Cell, cells_of
from kilocard.planning.packing import packed
from kilocard.planning.program import Limits, Solution, solve
from kilocard.specs.target import Building


@dataclass(frozen=True, slots=True)
class Group:
    """A pool to be placed: so many replicas of so many cards each."""

    pool: str
    replicas: int
    cards: int

    def __post_init__(self) -> None:
        if self.replicas < 1 or self.cards < 1:
            raise KilocardError(
                f"pool {self.pool}: {self.replicas} replicas of {self.cards} cards: give 1 or more"
            )


@dataclass(frozen=True, slots=True)
class Placed:
    """One replica on its nodes; several nodes where it is larger than one."""

    pool: str
    replica: int
    nodes: tuple[int, ...]
    rack: int
    switch: int
    power: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Every replica's place."""

    site: Building
    groups: tuple[Group, ...]
    placed: tuple[Placed, ...]

    def share_of(self, pool: str, kind: str) -> dict[int, float]:
        """Of a pool, the share that each rack, switch, power (domain) or node holds: what its loss takes."""
        mine = [it for it in self.placed if it.pool == pool]
        counts: dict[int, int] = {}
        for it in mine:
            for place in it.nodes if kind == "node" else (getattr(it, kind),):
                counts[place] = counts.get(place, 0) + 1
        return {place: count / len(mine) for place, count in counts.items()}

    def worst(self, kind: str) -> float:
        """The largest share of any pool that one of them holds."""
        return max(max(self.share_of(group.pool, kind).values()) for group in self.groups)


class NoPlaceError(KilocardError):
    """Nothing meets all rules: `rule` is one that cannot hold, `changes` what would be enough, each alone."""

    def __init__(self, rule: str, changes: Sequence[str]) -> None:
        self.rule, self.changes = rule, tuple(changes)
        ways = " or ".join(changes) or "cut replicas smaller, or bring a building of another shape"
        super().__init__(f"no placement: {rule}; {ways}")


def place(groups: Sequence[Group], site: Building) -> Placement:
    """Replicas spread as evenly as the rules and the building allow; NoPlaceError where they do not."""
    _require_distinct(groups)
    cells = cells_of(site, one_each=not _nest(groups, site.cards_per_node))
    found = solve(_sizes(groups), cells, site.cards_per_node, limits_of(groups, site))
    if found is None:
        from kilocard.planning.shortfall import shortfall

        raise shortfall(groups, site)
    return Placement(site, tuple(groups), tuple(_placed(groups, cells, found, site.cards_per_node)))


def can_place(groups: Sequence[Group], site: Building) -> bool:
    """Whether some placement meets all rules."""
    cells = cells_of(site, one_each=not _nest(groups, site.cards_per_node))
    return (
        solve(_sizes(groups), cells, site.cards_per_node, limits_of(groups, site), is_even=False) is not None
    )


def limits_of(groups: Sequence[Group], site: Building) -> Limits:
    """The most replicas of each pool in a rack and in a power domain; one may always stand somewhere."""

    def most(share: float | None) -> tuple[int | None, ...]:
        return tuple(None if share is None else max(1, floor(share * it.replicas + 1e-9)) for it in groups)

    return Limits(most(site.rack_share), most(site.power_share))


def _sizes(groups: Sequence[Group]) -> list[tuple[int, int]]:
    return [(group.replicas, group.cards) for group in groups]


def _nest(groups: Sequence[Group], per_node: int) -> bool:
    """Whether sizes divide one another and the node, so that what fits by the sum fits in fact."""
    sizes = sorted({group.cards for group in groups if group.cards < per_node} | {per_node})
    return all(large % small == 0 for small, large in pairwise(sizes))


def _placed(groups: Sequence[Group], cells: Sequence[Cell], found: Solution, per_node: int) -> list[Placed]:
    rows, numbers = [], [0] * len(groups)
    for c, cell in enumerate(cells):
        counts = [found.counts[p][c] for p in range(len(groups))]
        for p, nodes in packed(counts, [group.cards for group in groups], cell.nodes, per_node):
            rows.append(Placed(groups[p].pool, numbers[p], nodes, cell.rack, cell.switch, cell.power))
            numbers[p] += 1
    return rows


def _require_distinct(groups: Sequence[Group]) -> None:
    names = [group.pool for group in groups]
    if not names:
        raise KilocardError("nothing to place: give at least one pool")
    if len(set(names)) < len(names):
        raise KilocardError(
            f"two pools are called {max(names, key=names.count)}: their names tell them apart"
        )
