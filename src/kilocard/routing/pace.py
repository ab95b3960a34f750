"""How many requests a second a pool gets done when it has all it can do."""

from __future__ import annotations

from math import exp, inf

from kilocard.errors import KilocardError


class Pace:
    """Requests finished and seconds gone by while others waited, each forgotten with `memory_s`.

    A pool that is not waited for finishes what it is asked, which says nothing of what it could: that time
    does not count. Of what little is known the best is believed, so that nobody is refused for it.
    """

    __slots__ = ("_at_s", "_finished", "_seconds", "_waited_for", "memory_s")

    def __init__(self, memory_s: float = 30.0) -> None:
        if not 0 < memory_s < inf:
            raise KilocardError(f"a memory of {memory_s} s: give seconds above 0, 30 for instance")
        self.memory_s = memory_s
        self._at_s = -inf
        self._finished = 0.0
        self._seconds = 0.0
        self._waited_for = False

    def saw(self, now_s: float, waiting: int, finished: int = 0) -> None:
        """So many finished at this moment; so many wait from now on. To be told of each change of these."""
        if not self._waited_for and waiting == 0:
            return
        kept = exp(-max(0.0, now_s - self._at_s) / self.memory_s)
        self._finished *= kept
        self._seconds *= kept
        if self._waited_for:
            self._finished += finished
            self._seconds += self.memory_s * (1 - kept)
        self._at_s = max(self._at_s, now_s)
        self._waited_for = waiting > 0

    def per_s(self, now_s: float) -> float:
        """Requests a second, one more than were seen; infinite where nobody has waited lately."""
        gone_s = max(0.0, now_s - self._at_s)
        kept = exp(-gone_s / self.memory_s)
        seconds = self._seconds * kept + (self.memory_s * (1 - kept) if self._waited_for else 0.0)
        return (self._finished * kept + 1) / seconds if seconds > 0 else inf
