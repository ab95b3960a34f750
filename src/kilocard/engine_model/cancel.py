"""A request leaves before its answer is whole: its client hung up.

For engines that are driven step by step: the plan that was made last is the one that runs.
"""

from __future__ import annotations

from typing import Any

from kilocard.engine_model.compiled import compiled
from kilocard.engine_model.growth import count_all
from kilocard.engine_model.kv_cache import find, own_stream, unname
from kilocard.engine_model.preemption import release
from kilocard.engine_model.state import NOBODY, NOTHING, PREFILLS, Rows, Tables


@compiled
def cancel(tables: Tables, replica: Any, slots: Rows, request: Any) -> bool:
    """Take a request off its engine, waiting or running; False where it is neither: it is done."""
    if step_out(tables.requests, replica, request):
        forget_own(tables, replica, request)
        return True
    for place in range(replica.occupied):
        if slots[place].request == request.number:
            clear_slot(tables, replica, slots, place)
            forget_own(tables, replica, request)
            return True
    return False


@compiled
def step_out(requests: Rows, replica: Any, request: Any) -> bool:
    """Leave the line from wherever in it; False where the request does not stand there."""
    before = NOBODY
    at = replica.waiting_head
    while at != NOBODY and at != request.number:
        before = at
        at = requests[at].behind
    if at == NOBODY:
        return False
    if before == NOBODY:
        replica.waiting_head = request.behind
    else:
        requests[before].behind = request.behind
    if replica.waiting_tail == at:
        replica.waiting_tail = before
    replica.waiting -= 1
    return True


@compiled
def clear_slot(tables: Tables, replica: Any, slots: Rows, place: int) -> None:
    """Free a running request's blocks and close the gap; what it has computed of named streams can be met."""
    count_all(tables.entries, replica, slots, replica.plan)
    slot = slots[place]
    hashed = slot.computed
    if slot.last_plan == PREFILLS:
        replica.prefilling = 0
    else:
        hashed = max(slot.target, slot.offset + min(replica.plan, slot.last_plan) - replica.lag)
    if slot.blocks > 0:
        release(tables, replica, slot, hashed)
    replica.slack_blocks = replica.free_blocks
    replica.scheduled -= place < replica.scheduled
    replica.occupied -= 1
    for after in range(place, replica.occupied):
        slots[after] = slots[after + 1]


@compiled
def forget_own(tables: Tables, replica: Any, request: Any) -> None:
    """Unname what a preemption left behind under the request's number, which somebody else may bear next."""
    if request.preemptions > 0:
        at = find(tables.entries, replica, own_stream(request))
        if at != NOTHING:
            unname(tables.entries, replica, at)


@compiled
def empty_cache(entries: Rows, replica: Any) -> None:
    """Forget every prefix that an idle engine keeps: its process was started anew."""
    while replica.oldest != NOTHING:
        unname(entries, replica, replica.oldest)
