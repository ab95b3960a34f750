"""Preemption: where no KV block is left, the last running request goes back to the head of the line."""

from __future__ import annotations

from typing import Any

from kilocard.engine_model.compiled import compiled
from kilocard.engine_model.growth import blocks_at, count_all, count_blocks
from kilocard.engine_model.kv_cache import drop, find, free_entry, free_unnamed, name, own_stream, unname
from kilocard.engine_model.state import NOBODY, NOTHING, PREFILLS, Rows, Tables
from kilocard.engine_model.waiting import join_line


@compiled
def victim(tables: Tables, replica: Any, slots: Rows, plan: int) -> int:
    """Whom to preempt: the last running request, or the least important one under priorities."""
    chosen = NOBODY
    least = 0
    for place in range(replica.occupied):
        if slots[place].last_plan >= plan:
            priority = tables.requests[slots[place].request].priority * replica.by_priority
            if chosen == NOBODY or priority >= least:
                chosen = place
                least = priority
    return chosen


@compiled
def preempt(tables: Tables, replica: Any, slots: Rows, place: int, plan: int) -> None:
    """Free a request's blocks and let it wait, to be computed again; its full blocks can be met until they
    are taken."""
    slot = slots[place]
    request = tables.requests[slot.request]
    computed = slot.computed
    if slot.last_plan != PREFILLS:
        computed = slot.offset + plan - 1
        request.made = computed + 1 - request.prompt
    else:
        replica.prefilling = 0
    full = computed // replica.block_tokens
    if replica.prefix_caching and full > slot.shared_blocks:
        own = full - slot.shared_blocks
        left_before = find(tables.entries, replica, own_stream(request))
        if left_before != NOTHING:
            unname(tables.entries, replica, left_before)
        at = name(tables.entries, replica, own_stream(request), slot.shared_blocks)
        tables.entries[at].cached = own
        tables.entries[at].references = 0
        free_unnamed(tables.entries, replica, slot.blocks - full)
        free_entry(tables.entries, replica, at)
        slot.blocks = slot.shared_blocks
    drop(tables, replica, slot)
    replica.named -= request.path_length > 0
    request.preemptions += 1
    replica.preemptions += 1
    join_line(tables.requests, replica, request, True)
    replica.occupied -= 1
    for after in range(place, replica.occupied):
        slots[after] = slots[after + 1]


@compiled
def make_room(tables: Tables, replica: Any, slots: Rows, plan: int) -> None:
    """Give every decoding request its block for this plan, in order, preempting where there is none."""
    count_all(tables.entries, replica, slots, plan - 1)
    place = 0
    while place < replica.occupied:
        slot = slots[place]
        if slot.last_plan == PREFILLS or slot.last_plan < plan:
            place += 1
        elif blocks_at(replica, slot, plan) - slot.blocks <= replica.free_blocks:
            count_blocks(tables.entries, replica, slot, plan)
            place += 1
        else:
            chosen = victim(tables, replica, slots, plan)
            preempt(tables, replica, slots, chosen, plan)
            if chosen < place:
                place -= 1
    replica.slack_blocks = replica.free_blocks
