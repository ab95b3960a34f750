"""What company costs: seconds a token takes by the number of requests in flight, learned for a whole pool.

Some engines slow with each request, others only once their seats are taken: what a request takes from the
others there is seen, not assumed. Of numbers that were never seen the guess keeps its shape.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import compiled

LEVELS = np.array([1, 2, 3, 4, 5, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512], np.float64)
"""Requests in flight for which a pace is kept; between them it is a straight line."""
MOST = int(LEVELS[-1])
_NUMBERS = np.arange(MOST + 1)
NEAREST = np.abs(LEVELS - _NUMBERS[:, None]).argmin(axis=1)
FLOOR = np.maximum(0, np.searchsorted(LEVELS, _NUMBERS, side="right") - 1)
MEMORY_TOKENS = 8192.0
"""So many tokens later, what was seen at a level weighs 1/e."""
EASY, SLOWER = 4.0, 1 / 6
"""The guess: so many hardly slow each other, and each beyond them adds a sixth of what one alone takes."""


def guessed_paces() -> NDArray[np.float64]:
    """One alone takes 1: what it takes in seconds is known with the first token."""
    return 1 + SLOWER * LEVELS**3 / (LEVELS**2 + EASY**2)


@compiled
def nearest(active: int) -> int:
    """The level of so many requests in flight."""
    return NEAREST[min(max(active, 1), MOST)]


@compiled
def learn(
    paces: NDArray[np.float64], tokens_seen: NDArray[np.float64], active: int, pace_s: float, tokens: int
) -> None:
    """So many tokens came at this pace in such company. Levels beside it that were never seen follow."""
    level = nearest(active)
    tokens_seen[level] = min(tokens_seen[level] + tokens, MEMORY_TOKENS)
    times = 1 + (pace_s / paces[level] - 1) * min(1.0, tokens / tokens_seen[level])
    paces[level] *= times
    above = level + 1
    while above < len(paces) and tokens_seen[above] == 0:
        paces[above] *= times
        above += 1
    below = level - 1
    while below >= 0 and tokens_seen[below] == 0:
        paces[below] *= times
        below -= 1


@compiled
def pace_s(paces: NDArray[np.float64], company: float) -> float:
    """Seconds a token where so many are in flight."""
    if company <= 1:
        return paces[0]
    below = FLOOR[min(int(company), MOST)]
    if below + 1 >= len(paces):
        return paces[below]
    part = (company - LEVELS[below]) / (LEVELS[below + 1] - LEVELS[below])
    return paces[below] + part * (paces[below + 1] - paces[below])
