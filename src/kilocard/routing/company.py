"""What company costs: seconds a token takes by the number of requests in flight, learned for a whole pool.

Some engines slow with each request, others only once their seats are taken: what a request takes from the
others there is seen, not assumed. Of numbers that were never seen the guess keeps its shape. What is seen
scatters, and a step in it that is only chance would keep requests on its far side: so each request more is
taken to slow a token by no less than the one before it did.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import compiled

LEVELS = np.array([1, 2, 3, 4, 5, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512], np.float64)
"""Requests in flight for which a pace is kept; between them it is a straight line."""
COUNT, MOST = len(LEVELS), int(LEVELS[-1])
_NUMBERS = np.arange(MOST + 1)
FLOOR = np.maximum(0, np.searchsorted(LEVELS, _NUMBERS, side="right") - 1)
MEMORY_TOKENS = 8192.0
"""So many tokens later, what was seen at a level weighs 1/e."""
MOST_TIMES = 1.5
"""What is further off than that counts as this far (Huber 1964): neither a slow replica nor a mad answer says
what is usual."""
A_LITTLE = 1e-6
"""What a guess weighs beside tokens that were seen."""
EASY, SLOWER = 4.0, 1 / 6
"""The guess: so many hardly slow each other, and each beyond them adds a sixth of what one alone takes."""

SEEN_S, TOKENS, PACE_S, SLOPE, WEIGHT, STEPS = range(6)
"""Rows of a table of company: as seen, and by how many tokens; made straight by `settle_paces`, with room for
its work."""


def new_company() -> NDArray[np.float64]:
    """One alone takes 1: what it takes in seconds is known with the first token."""
    table = np.zeros((6, COUNT))
    table[SEEN_S] = table[PACE_S] = 1 + SLOWER * LEVELS**3 / (LEVELS**2 + EASY**2)
    return table


@compiled
def floor_of(company: float) -> int:
    """The level at or under so many in flight, or the last but one."""
    return min(FLOOR[min(int(max(company, 1.0)), MOST)], COUNT - 2)


@compiled
def learn(table: NDArray[np.float64], company: float, pace_s: float, tokens: int) -> float:
    """So many tokens came at this pace in such company; returns how many times that is of what is now known.
    The levels on both sides learn, by how near they are; those beyond that were never seen follow them, and
    between two that were seen they stay between them."""
    below = floor_of(company)
    part = share_above(company, below)
    times = pace_s / _between(table[SEEN_S, below], table[SEEN_S, below + 1], part)
    if table[TOKENS, below] + table[TOKENS, below + 1] > 0:
        times = min(MOST_TIMES, max(1 / MOST_TIMES, times))
    low = _learned(table, below, times, (1 - part) * tokens)
    high = _learned(table, below + 1, times, part * tokens)
    if table[TOKENS, below] > 0:
        _follow(table, below, -1, low)
    else:
        _follow(table, below + 1, -1, high)
    if table[TOKENS, below + 1] > 0:
        _follow(table, below + 1, 1, high)
    else:
        _follow(table, below, 1, low)
    return pace_s / _between(table[SEEN_S, below], table[SEEN_S, below + 1], part)


@compiled
def _between(low: float, high: float, part: float) -> float:
    return low + part * (high - low)


@compiled
def share_above(company: float, below: int) -> float:
    """How far so many in flight are on the way from a level to the next: 0 to 1."""
    part = (company - LEVELS[below]) / (LEVELS[below + 1] - LEVELS[below])
    return min(1.0, max(0.0, part))


@compiled
def _learned(table: NDArray[np.float64], level: int, times: float, tokens: float) -> float:
    if tokens <= 0:
        return 1.0
    table[TOKENS, level] = min(table[TOKENS, level] + tokens, MEMORY_TOKENS)
    by = 1 + (times - 1) * min(1.0, tokens / table[TOKENS, level])
    table[SEEN_S, level] *= by
    return by


@compiled
def _follow(table: NDArray[np.float64], seen: int, step: int, by: float) -> None:
    """The levels next to one that was seen, up to the next that was."""
    end = seen + step
    while 0 <= end < COUNT and table[TOKENS, end] == 0:
        table[SEEN_S, end] *= by
        end += step
    if end < 0 or end >= COUNT:
        return
    least = min(table[SEEN_S, seen], table[SEEN_S, end])
    most = max(table[SEEN_S, seen], table[SEEN_S, end])
    level = seen + step
    while level != end:
        table[SEEN_S, level] = min(most, max(least, table[SEEN_S, level]))
        level += step


@compiled
def settle_paces(table: NDArray[np.float64]) -> None:
    """The nearest paces to those seen of which each slope is at least the one before it: neighbours that are
    not take their mean (pool adjacent violators; Ayer et al. 1955)."""
    last = -1
    for level in range(COUNT - 1):
        wide = LEVELS[level + 1] - LEVELS[level]
        slope = (table[SEEN_S, level + 1] - table[SEEN_S, level]) / wide
        weight = (
            wide * wide / (1 / (A_LITTLE + table[TOKENS, level]) + 1 / (A_LITTLE + table[TOKENS, level + 1]))
        )
        steps = 1.0
        while last >= 0 and table[SLOPE, last] > slope:
            both = weight + table[WEIGHT, last]
            slope = (weight * slope + table[WEIGHT, last] * table[SLOPE, last]) / both
            weight = both
            steps += table[STEPS, last]
            last -= 1
        last += 1
        table[SLOPE, last], table[WEIGHT, last], table[STEPS, last] = slope, weight, steps
    level = 0
    rise = 0.0
    table[PACE_S, 0] = 0.0
    for place in range(last + 1):
        for _ in range(int(table[STEPS, place])):
            rise += max(0.0, table[SLOPE, place]) * (LEVELS[level + 1] - LEVELS[level])
            level += 1
            table[PACE_S, level] = rise
    _set_height(table)


@compiled
def _set_height(table: NDArray[np.float64]) -> None:
    """Slopes are right; so shall be the mean."""
    height = tokens = 0.0
    for level in range(COUNT):
        weight = table[TOKENS, level] + A_LITTLE
        height += weight * (table[SEEN_S, level] - table[PACE_S, level])
        tokens += weight
    for level in range(COUNT):
        table[PACE_S, level] += max(height / tokens, 1e-9)


@compiled
def pace_s(table: NDArray[np.float64], company: float) -> float:
    """Seconds a token where so many are in flight; no fewer than 1 and no more than the last level."""
    below = floor_of(company)
    part = share_above(company, below)
    return _between(table[PACE_S, below], table[PACE_S, below + 1], part)
