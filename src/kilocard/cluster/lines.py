"""The lines before pools, one a gateway and pool: `kilocard.routing.waiting.Line`, in tables.

Within a rank who came first goes first, so a line is one queue a rank, of whose heads the first in order
goes. A property test holds both to the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import NEVER_PS, compiled
from kilocard.engine_model.state import NOBODY, Rows

RANKS = 3
KEPT_SHARE = 0.1

Ints = NDArray[np.int64]


class Lines(NamedTuple):
    """By line and rank: the first and the last that wait, and how many. `limits` by line; `waits_ps` by rank,
    the longest that one waits. `ageing_ps` is what a rank costs. `now` counts all that wait."""

    heads: Ints
    tails: Ints
    counts: Ints
    limits: Ints
    waits_ps: Ints
    ageing_ps: Ints
    now: Ints


def new_lines(limits: Ints, waits_ps: Ints, ageing_ps: int) -> Lines:
    """Nobody waits."""
    shape = (len(limits), RANKS)
    return Lines(
        np.full(shape, NOBODY),
        np.full(shape, NOBODY),
        np.zeros(shape, np.int64),
        limits,
        waits_ps,
        np.array([ageing_ps]),
        np.zeros(1, np.int64),
    )


@compiled
def key_ps(lines: Lines, arrived_ps: int, rank: int) -> int:
    """The place in order, the least first."""
    return arrived_ps + rank * lines.ageing_ps[0]


@compiled
def waiting(lines: Lines, line: int) -> int:
    """How many wait."""
    return lines.counts[line, 0] + lines.counts[line, 1] + lines.counts[line, 2]


@compiled
def of_better(lines: Lines, line: int, rank: int) -> int:
    """How many wait that have a better rank."""
    count = 0
    for other in range(rank):
        count += lines.counts[line, other]
    return count


@compiled
def kept_for(lines: Lines, line: int, rank: int) -> int:
    """How many of this rank nobody drives out."""
    return int(lines.limits[line] * KEPT_SHARE) if rank > 0 else 0


@compiled
def ahead(lines: Lines, requests: Rows, line: int, arrived_ps: int, rank: int) -> int:
    """How many would be served before one that came then."""
    mine = key_ps(lines, arrived_ps, rank)
    before = 0
    for other in range(RANKS):
        at = lines.heads[line, other]
        if at == NOBODY:
            continue
        if key_ps(lines, requests[lines.tails[line, other]].arrival_ps, other) <= mine:
            before += lines.counts[line, other]
            continue
        while at != NOBODY and key_ps(lines, requests[at].arrival_ps, other) <= mine:
            before += 1
            at = requests[at].behind
    return before


@compiled
def first(lines: Lines, requests: Rows, line: int) -> int:
    """The rank whose head goes first; −1 where nobody waits."""
    best = NOBODY
    soonest = NEVER_PS
    for rank in range(RANKS):
        at = lines.heads[line, rank]
        if at != NOBODY:
            mine = key_ps(lines, requests[at].arrival_ps, rank)
            if best == NOBODY or mine < soonest:
                best = rank
                soonest = mine
    return best


@compiled
def push(lines: Lines, requests: Rows, line: int, request: int, rank: int) -> int:
    """Let one in; returns who has to leave for it, maybe the newcomer, or −1."""
    before = lines.tails[line, rank]
    if before != NOBODY and requests[before].arrival_ps > requests[request].arrival_ps:
        before = NOBODY
        after = lines.heads[line, rank]
        while requests[after].arrival_ps <= requests[request].arrival_ps:
            before = after
            after = requests[after].behind
    if before == NOBODY:
        requests[request].behind = lines.heads[line, rank]
        lines.heads[line, rank] = request
    else:
        requests[request].behind = requests[before].behind
        requests[before].behind = request
    if lines.tails[line, rank] == before:
        lines.tails[line, rank] = request
    lines.counts[line, rank] += 1
    lines.now[0] += 1
    if waiting(lines, line) > lines.limits[line]:
        return drop_last(lines, requests, line)
    return NOBODY


@compiled
def drop_last(lines: Lines, requests: Rows, line: int) -> int:
    """The last in order of those that have no kept place leaves; returns it."""
    worst = NOBODY
    latest = -NEVER_PS
    for strict in range(2):
        for rank in range(RANKS):
            kept = 0 if strict else kept_for(lines, line, rank)
            if lines.counts[line, rank] > kept:
                mine = key_ps(lines, requests[lines.tails[line, rank]].arrival_ps, rank)
                if worst == NOBODY or mine >= latest:
                    worst = rank
                    latest = mine
        if worst != NOBODY:
            break
    gone = lines.tails[line, worst]
    take(lines, requests, line, worst, gone)
    return gone


@compiled
def take(lines: Lines, requests: Rows, line: int, rank: int, request: int) -> None:
    """One leaves, from wherever in its queue."""
    before = NOBODY
    at = lines.heads[line, rank]
    while at != request:
        before = at
        at = requests[at].behind
    if before == NOBODY:
        lines.heads[line, rank] = requests[request].behind
    else:
        requests[before].behind = requests[request].behind
    if lines.tails[line, rank] == request:
        lines.tails[line, rank] = before
    requests[request].behind = NOBODY
    lines.counts[line, rank] -= 1
    lines.now[0] -= 1


@compiled
def overdue(lines: Lines, requests: Rows, line: int, now_ps: int) -> int:
    """One that has waited for too long leaves; −1 where there is none."""
    for rank in range(RANKS):
        at = lines.heads[line, rank]
        if at != NOBODY and requests[at].arrival_ps + lines.waits_ps[rank] <= now_ps:
            take(lines, requests, line, rank, at)
            return at
    return NOBODY
