"""Weights of a pool's members from their own recent pace and load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kilocard.gateway.member import Member
from kilocard.routing.weights import Latencies, WeightRule, eased, wanted_weights


@dataclass(slots=True)
class Weighing:
    """`rule` is None where weights stay as the file has them; else they move every `every_s`."""

    rule: WeightRule | None = None
    every_s: float = 10.0
    _paces: dict[Member, Latencies] = field(default_factory=dict)
    _weights: dict[Member, float] = field(default_factory=dict)
    _moved_s: float = 0.0

    def saw(self, member: Member, tpot_s: float, now_s: float) -> None:
        """A stream ended well, at so many seconds a token."""
        if self.rule is not None:
            self._paces.setdefault(member, Latencies()).saw(tpot_s, now_s)

    def weight(self, member: Member) -> float:
        """What it is worth beside the others, over 0 and up to 1."""
        return self._weights.get(member, 1.0) if self.rule is not None else 1.0

    def forget(self, member: Member) -> None:
        """Its engine is another now, or it has left."""
        self._paces.pop(member, None)
        self._weights.pop(member, None)

    def is_due(self, now_s: float) -> bool:
        """Whether it is time to weigh again; true once for each time."""
        if self.rule is None or now_s < self._moved_s + self.every_s:
            return False
        self._moved_s = now_s
        return True

    def weigh(self, members: Sequence[Member], busy: Sequence[float], now_s: float) -> None:
        """Weigh the members of a pool, of which each is busy to a share of what it may hold."""
        if self.rule is None:
            return
        paces = [self._paces[it].p95_s(self.rule, now_s) if it in self._paces else 0.0 for it in members]
        wanted = wanted_weights(paces, busy, self.rule)
        moved = eased([self.weight(it) for it in members], wanted, self.rule, self.every_s)
        self._weights.update(zip(members, moved, strict=True))
