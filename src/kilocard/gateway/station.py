"""A pool with those who wait for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kilocard.gateway.call import Call
from kilocard.gateway.pool import Pool
from kilocard.routing.pace import Pace
from kilocard.routing.waiting import Line

GONE = "gone"
"""The role of a pool that the file names no longer, until its last request has ended."""
HIDDEN = frozenset({"buffer", GONE})


@dataclass(slots=True, eq=False)
class Station:
    """A pool with its line. `lenders` are offline pools whose idle replicas it may use."""

    pool: Pool
    role: str
    line: Line[Call]
    pace: Pace = field(default_factory=Pace)
    lenders: list[Station] = field(default_factory=list)
    borrowers: list[Station] = field(default_factory=list)
    expects: bool = True
    """Whether a replica is being asked for the first time: it may be up in a moment."""

    @property
    def serves(self) -> bool:
        """Whether any replica may be used, now or when it has room."""
        return any(share > 0 for share in self.pool.replicas.share)
