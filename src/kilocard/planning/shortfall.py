"""Why replicas cannot be placed: the rule that cannot hold, and the nearest changes with which all would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

from kilocard.planning.building import cells_of
from kilocard.planning.placement import Group, NoPlaceError, can_place
from kilocard.planning.trial import highest_where
from kilocard.specs.target import Building

MOST_MORE = 16
"""Times as many nodes as there are: beyond, another building is meant."""


def shortfall(groups: Sequence[Group], site: Building) -> NoPlaceError:
    """The first rule, of those that stand alone, that the building cannot keep."""
    free = site.model_copy(update={"rack_share": None, "power_share": None})
    changes = [*_looser(groups, site), *_fewer(groups, site), *_more_nodes(groups, site)]
    asked = sum(group.replicas * group.cards for group in groups)
    if asked > site.cards:
        return NoPlaceError(f"{asked:,} cards are asked for and {site.cards:,} are there", changes)
    for group in groups:
        if not can_place([group], free):
            return NoPlaceError(_does_not_fit(group, site), changes)
    if not can_place(groups, free):
        return NoPlaceError(
            f"{asked:,} of {site.cards:,} cards would do, but whole replicas leave rests on too many nodes",
            changes,
        )
    for name, what in (("rack_share", "rack"), ("power_share", "power domain")):
        alone = free.model_copy(update={name: getattr(site, name)})
        if getattr(site, name) is not None and not can_place(groups, alone):
            return NoPlaceError(f"no {what} may hold more than {getattr(site, name):.0%} of a pool", changes)
    return NoPlaceError("rack_share and power_share cannot both hold", changes)


def _does_not_fit(group: Group, site: Building) -> str:
    if group.cards > site.cards_per_node:
        nodes = ceil(group.cards / site.cards_per_node)
        room = max(len(cell.nodes) for cell in cells_of(site))
        if nodes > room:
            return (
                f"a replica of {group.pool} takes {nodes} nodes under one switch in one rack, and at most "
                f"{room} are there together"
            )
    what = f"{group.replicas} replicas of {group.pool}, {group.cards} cards each"
    return f"{what}, do not go into whole nodes of the building"


def _looser(groups: Sequence[Group], site: Building) -> list[str]:
    """The least share with which all would stand, of each rule alone."""
    found = []
    for name in ("rack_share", "power_share"):
        if getattr(site, name) is None:
            continue

        def fits(percent: int, name: str = name) -> bool:
            return can_place(groups, site.model_copy(update={name: percent / 100}))

        percent = _least(fits, 1, 100)
        if percent is not None:
            found.append(f"let {name} be {percent / 100:g}")
    return found


def _fewer(groups: Sequence[Group], site: Building) -> list[str]:
    """The fewest replicas less, of one pool alone."""
    found = []
    for k, group in enumerate(groups):

        def fits(count: int, k: int = k, group: Group = group) -> bool:
            rest = [Group(it.pool, count, it.cards) if j == k else it for j, it in enumerate(groups)]
            return can_place(rest, site)

        if group.replicas > 1 and fits(1):
            most = highest_where(fits, 1, group.replicas - 1)
            found.append(
                (
                    group.replicas - most,
                    f"place {group.replicas - most} replicas of {group.pool} fewer ({most})",
                )
            )
    return [min(found)[1]] if found else []


def _more_nodes(groups: Sequence[Group], site: Building) -> list[str]:
    """The fewest nodes more, racks, switches and domains growing with them."""

    def fits(nodes: int) -> bool:
        return can_place(groups, grown(site, nodes))

    least = _least(fits, site.nodes + 1, MOST_MORE * site.nodes)
    return [] if least is None else [f"add {least - site.nodes} nodes ({least})"]


def grown(site: Building, nodes: int) -> Building:
    """The same building, longer: as many nodes in a rack, under a switch and in a domain as before."""

    def more(count: int) -> int:
        return ceil(nodes / (site.nodes / count) - 1e-9)

    return site.model_copy(
        update={
            "nodes": nodes,
            "racks": more(site.racks) if site.racks > 1 else 1,
            "switches": more(site.switches) if site.switches > 1 else 1,
            "power_domains": more(site.power_domains) if site.power_domains > 1 else 1,
        }
    )


def _least(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The least number of which something holds that stays true once it is."""
    if not fits(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low
