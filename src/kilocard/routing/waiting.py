"""The line that a pool's requests wait in: bounded, in order of priority, and nobody starves in it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from math import inf
from typing import Generic, TypeVar

from kilocard.errors import KilocardError

T = TypeVar("T", bound=Hashable)


def order_key(arrived_s: float, rank: int, ageing_s: float) -> float:
    """The place in a line, the least first: when it came, and `ageing_s` later for each rank (0 interactive,
    1 asynchronous, 2 batch).

    A request of rank k never waits behind one of rank 0 that came more than k × ageing_s after it.
    """
    return arrived_s + rank * ageing_s


class Line(Generic[T]):
    """Who waits, first come first served within equal keys.

    When it is full the last in order leaves, newcomer or not; but each rank above 0 keeps `kept_share` of the
    places for those who have them, or a flood of better ones would drive all out before their age counts.
    Whoever leaves is forgotten at once. Each call looks at O(log n) of those who wait; the shift in the list
    behind it costs under a nanosecond an entry.
    """

    __slots__ = ("_by_rank", "_came", "_order", "_places", "_soonest_s", "ageing_s", "kept_share", "limit")

    def __init__(self, limit: int, ageing_s: float, kept_share: float = 0.1) -> None:
        self.limit = _checked(limit)
        if not 0 <= kept_share <= 0.5:
            raise KilocardError(f"kept_share is {kept_share}: give a share of the places, 0 to 0.5")
        self.kept_share = kept_share
        if not 0 <= ageing_s < inf:
            raise KilocardError(f"an ageing of {ageing_s} s: give seconds of 0 or more, that a rank costs")
        self.ageing_s = ageing_s
        # Last first, so that the first leaves from the end of the list, where nothing has to move.
        self._order: list[tuple[float, int, float, int, T]] = []
        self._places: dict[T, tuple[float, int]] = {}
        self._by_rank: dict[int, int] = {}
        self._came = 0
        self._soonest_s = inf

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, item: object) -> bool:
        return item in self._places

    def __iter__(self) -> Iterator[T]:
        """All of them, the first in order first."""
        return (entry[-1] for entry in reversed(self._order))

    @property
    def first(self) -> T | None:
        """Whose turn it is."""
        return self._order[-1][-1] if self._order else None

    @property
    def soonest_s(self) -> float:
        """Nobody gives up before this."""
        return self._soonest_s

    def of_rank(self, rank: int) -> int:
        """How many of this rank wait."""
        return self._by_rank.get(rank, 0)

    def of_better(self, rank: int) -> int:
        """How many wait that have a better rank."""
        return sum(count for other, count in self._by_rank.items() if other < rank)

    def kept_for(self, rank: int) -> int:
        """How many of this rank nobody drives out."""
        return int(self.limit * self.kept_share) if rank > 0 else 0

    def push(self, item: T, arrived_s: float, rank: int, gives_up_s: float = inf) -> T | None:
        """Let one in; returns who has to leave for it, maybe the newcomer."""
        if item in self._places:
            raise KilocardError(f"{item!r:.60} waits already: push it once, or remove it first")
        self._came += 1
        place = (-order_key(arrived_s, rank, self.ageing_s), -self._came)
        self._places[item] = place
        insort(self._order, (*place, gives_up_s, rank, item))
        self._by_rank[rank] = self._by_rank.get(rank, 0) + 1
        self._soonest_s = min(self._soonest_s, gives_up_s)
        return self._leave(self._last()) if len(self._order) > self.limit else None

    def pop(self) -> T | None:
        """The first in order leaves; None where nobody waits."""
        return self._leave(-1) if self._order else None

    def remove(self, item: T) -> bool:
        """One leaves out of turn: it hung up. False where it was not in the line."""
        place = self._places.get(item)
        if place is None:
            return False
        # The shorter of two tuples that are equal so far is the lesser: items are never compared.
        self._leave(bisect_left(self._order, place))
        return True

    def ahead(self, arrived_s: float, rank: int) -> int:
        """How many would be served before one that came now, or before one that came then."""
        place = (-order_key(arrived_s, rank, self.ageing_s), -self._came - 1)
        return len(self._order) - bisect_left(self._order, place)

    def overdue(self, now_s: float) -> list[T]:
        """Take out those whose time is up, the first in order first."""
        if now_s < self._soonest_s:
            return []
        late = [entry[-1] for entry in reversed(self._order) if entry[2] <= now_s]
        for item in late:
            self.remove(item)
        self._soonest_s = min((entry[2] for entry in self._order), default=inf)
        return late

    def resize(self, limit: int) -> list[T]:
        """Set another limit; returns those for whom there is no room any longer, the last in order first."""
        self.limit = _checked(limit)
        return [self._leave(self._last()) for _ in range(len(self._order) - limit)]

    def _last(self) -> int:
        """The last in order of those that have no kept place."""
        over = {rank for rank, count in self._by_rank.items() if count > self.kept_for(rank)}
        return next((at for at, entry in enumerate(self._order) if entry[3] in over), 0)

    def _leave(self, at: int) -> T:
        *_, rank, item = self._order.pop(at)
        del self._places[item]
        self._by_rank[rank] -= 1
        return item


def _checked(limit: int) -> int:
    if limit < 0:
        raise KilocardError(f"a line of {limit} requests: give 0 (nobody waits) or more")
    return limit
