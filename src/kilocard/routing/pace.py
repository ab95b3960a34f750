"""How many requests a second a pool gets done when it has all it can do."""

from __future__ import annotations

from math import exp, inf

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import compiled, plain
from kilocard.errors import KilocardError

MEMORY_S = 30.0
AT_S, FINISHED, SECONDS, WAITED_FOR = range(4)
"""Of a pool's row: when it was told last; requests and seconds while others waited, each forgotten with the
memory; whether anybody waits."""

Row = NDArray[np.float64] | list[float]


def new_paces(count: int) -> NDArray[np.float64]:
    """Of so many pools nothing is known."""
    rows = np.zeros((count, 4))
    rows[:, AT_S] = -inf
    return rows


@compiled
def saw(row: Row, memory_s: float, now_s: float, waiting: int, finished: int) -> None:
    """So many finished at this moment; so many wait from now on."""
    if row[WAITED_FOR] == 0 and waiting == 0:
        return
    kept = exp(-max(0.0, now_s - row[AT_S]) / memory_s)
    row[FINISHED] *= kept
    row[SECONDS] *= kept
    if row[WAITED_FOR] > 0:
        row[FINISHED] += finished
        row[SECONDS] += memory_s * (1 - kept)
    row[AT_S] = max(row[AT_S], now_s)
    row[WAITED_FOR] = 1.0 if waiting > 0 else 0.0


@compiled
def finished_per_s(row: Row, memory_s: float, now_s: float) -> float:
    """Requests a second, one more than were seen; infinite where nobody has waited lately."""
    gone_s = max(0.0, now_s - row[AT_S])
    kept = exp(-gone_s / memory_s)
    seconds = row[SECONDS] * kept + (memory_s * (1 - kept) if row[WAITED_FOR] > 0 else 0.0)
    return (row[FINISHED] * kept + 1) / seconds if seconds > 0 else inf


_saw, _finished_per_s = plain(saw), plain(finished_per_s)


class Pace:
    """Of one pool: requests finished and seconds gone by while others waited, each forgotten with
    `memory_s`.

    A pool that is not waited for finishes what it is asked, which says nothing of what it could: that time
    does not count. Of what little is known the best is believed, so that nobody is refused for it.
    """

    __slots__ = ("_row", "memory_s")

    def __init__(self, memory_s: float = MEMORY_S) -> None:
        if not 0 < memory_s < inf:
            raise KilocardError(f"a memory of {memory_s} s: give seconds above 0")
        self.memory_s = memory_s
        self._row = [-inf, 0.0, 0.0, 0.0]

    def saw(self, now_s: float, waiting: int, finished: int = 0) -> None:
        """So many finished at this moment; so many wait from now on. To be told of each change of these."""
        _saw(self._row, self.memory_s, now_s, waiting, finished)

    def per_s(self, now_s: float) -> float:
        """Requests a second, one more than were seen; infinite where nobody has waited lately."""
        return _finished_per_s(self._row, self.memory_s, now_s)
