"""The waiting line of an engine: by arrival, or by priority and then arrival."""

from __future__ import annotations

from typing import Any

from kilocard.engine_model.compiled import compiled
from kilocard.engine_model.state import NOBODY, Rows


@compiled
def outranks(one: Any, other: Any) -> bool:
    """Whether one request goes before another under priorities: a lower number, then an earlier arrival."""
    if one.priority != other.priority:
        return one.priority < other.priority
    if one.arrival_ps != other.arrival_ps:
        return one.arrival_ps < other.arrival_ps
    return one.number < other.number


@compiled
def join_line(requests: Rows, replica: Any, request: Any) -> bool:
    """Put a request into the line: by rank, or else last, or first if it ran before; True if it heads it."""
    before = replica.waiting_tail
    if replica.by_priority and before != NOBODY and not outranks(requests[before], request):
        before = NOBODY
        after = replica.waiting_head
        while outranks(requests[after], request):
            before = after
            after = requests[after].behind
    elif request.preemptions > 0 and not replica.by_priority:
        before = NOBODY
    if before == NOBODY:
        request.behind = replica.waiting_head
        replica.waiting_head = request.number
    else:
        request.behind = requests[before].behind
        requests[before].behind = request.number
    if replica.waiting_tail == before:
        replica.waiting_tail = request.number
    replica.waiting += 1
    return before == NOBODY


@compiled
def leave_line(requests: Rows, replica: Any) -> None:
    """The head of the line leaves it."""
    replica.waiting_head = requests[replica.waiting_head].behind
    if replica.waiting_head == NOBODY:
        replica.waiting_tail = NOBODY
    replica.waiting -= 1
