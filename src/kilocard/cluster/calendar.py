"""What is to be done outside the loop, in the order of time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS

Deed = Callable[[int], None]
"""Done at a time in picoseconds."""


@dataclass(slots=True)
class Calendar:
    """Deeds by when they are due; those of one moment in the order in which they were put down."""

    _due: list[tuple[int, int, Deed]] = field(default_factory=list)
    _count: int = 0

    def at(self, at_ps: int, deed: Deed) -> None:
        """To be done then."""
        heapq.heappush(self._due, (at_ps, self._count, deed))
        self._count += 1

    def at_s(self, at_s: float, deed: Deed) -> None:
        """To be done then."""
        self.at(round(at_s * PICOSECONDS), deed)

    @property
    def next_ps(self) -> int:
        """When the first is due."""
        return self._due[0][0] if self._due else NEVER_PS

    def do_due(self, now_ps: int) -> None:
        """All that are due by now."""
        while self._due and self._due[0][0] <= now_ps:
            at_ps, _, deed = heapq.heappop(self._due)
            deed(at_ps)
