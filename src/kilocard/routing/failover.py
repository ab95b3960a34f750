"""Which group of replicas serves a pool: the first in order that is well, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilocard.errors import KilocardError


@dataclass(frozen=True, slots=True)
class FailoverRule:
    """`order`: the groups, the own one first; a replica of none of these belongs to a last one.

    A group that was left is used again once `back_share` of it is well: before that the few that have come
    back would get what all of them carried. `on_load`: a full group passes on what it has no room for;
    otherwise that waits.
    """

    order: tuple[str, ...] = ()
    back_share: float = 0.5
    on_load: bool = False

    def __post_init__(self) -> None:
        if len(set(self.order)) < len(self.order):
            raise KilocardError(f"failover names a group twice in {', '.join(self.order)}: once is enough")
        if not 0 < self.back_share <= 1:
            raise KilocardError(f"back_share is {self.back_share}: give a share above 0, at most 1")

    def place(self, group: str) -> int:
        """In the order; the last for one that it does not name."""
        return self.order.index(group) if group in self.order else len(self.order)


def group_in_use(rule: FailoverRule, groups: Sequence[str], shares: Sequence[float], current: int) -> int:
    """The place in the order of the group that serves from now on.

    groups, shares: of each replica, the share as health has it. current: the place of the one that has served
    so far, at first 0.
    """
    well, sizes = [0.0] * (len(rule.order) + 1), [0] * (len(rule.order) + 1)
    for group, share in zip(groups, shares, strict=True):
        well[rule.place(group)] += share
        sizes[rule.place(group)] += 1
    for place, part in enumerate(well):
        if part > 0 and (place == current or part >= rule.back_share * sizes[place]):
            return place
    return next((place for place, part in enumerate(well) if part > 0), current)


def open_shares(
    rule: FailoverRule, groups: Sequence[str], shares: Sequence[float], rooms: Sequence[bool], used: int
) -> list[float]:
    """Each replica's share as its group allows: all of it in the one that is used, and of the others nothing.
    Where `on_load` says so, those that come next in order serve too, as far as those before them are full."""
    places = [rule.place(group) for group in groups]
    last = used
    if rule.on_load:
        free = [
            place
            for place, share, room in zip(places, shares, rooms, strict=True)
            if room and share > 0 and place >= used
        ]
        last = min(free, default=used)
    return [share if used <= place <= last else 0.0 for place, share in zip(places, shares, strict=True)]
