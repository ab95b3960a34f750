"""Requests by the moment at which something of theirs is due: a heap, the soonest first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import NEVER_PS, compiled


class Due(NamedTuple):
    """`length` holds how many there are; moments are in picoseconds, and ties go by the request's number."""

    requests: NDArray[np.int64]
    at_ps: NDArray[np.int64]
    length: NDArray[np.int64]


def new_due(most: int) -> Due:
    """Room for so many."""
    return Due(np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(1, np.int64))


@compiled
def soonest_ps(due: Due) -> int:
    """When the first is due; never, where there is none."""
    return due.at_ps[0] if due.length[0] > 0 else NEVER_PS


@compiled
def push(due: Due, request: int, at_ps: int) -> None:
    """One more."""
    place = due.length[0]
    due.length[0] += 1
    while place > 0:
        parent = (place - 1) // 2
        if is_before(due, parent, request, at_ps):
            break
        move(due, parent, place)
        place = parent
    due.requests[place] = request
    due.at_ps[place] = at_ps


@compiled
def pop(due: Due) -> int:
    """The first leaves."""
    first = due.requests[0]
    due.length[0] -= 1
    count = due.length[0]
    request = due.requests[count]
    at_ps = due.at_ps[count]
    place = 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and is_before(due, child + 1, due.requests[child], due.at_ps[child]):
            child += 1
        if not is_before(due, child, request, at_ps):
            break
        move(due, child, place)
        place = child
    due.requests[place] = request
    due.at_ps[place] = at_ps
    return first


@compiled
def is_before(due: Due, place: int, request: int, at_ps: int) -> bool:
    """Whether the one at a place comes before another."""
    if due.at_ps[place] != at_ps:
        return due.at_ps[place] < at_ps
    return due.requests[place] < request


@compiled
def move(due: Due, place: int, to: int) -> None:
    """The one at a place takes another."""
    due.requests[to] = due.requests[place]
    due.at_ps[to] = due.at_ps[place]
