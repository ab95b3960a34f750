"""The waiting line of an engine: by arrival, or by priority and then arrival."""

from __future__ import annotations

from typing import Any

from kilocard.engine_model.compiled import compiled
from kilocard.engine_model.state import NOBODY, Rows


@compiled
def join_line(requests: Rows, replica: Any, request: Any, first: bool) -> bool:
    """Put a request into the line, `first` among its equals if asked; True if it now heads the line."""
    before = NOBODY
    if replica.by_priority:
        after = replica.waiting_head
        while after != NOBODY and (
            requests[after].priority < request.priority
            or (requests[after].priority == request.priority and not first)
        ):
            before = after
            after = requests[after].behind
    elif not first:
        before = replica.waiting_tail
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
