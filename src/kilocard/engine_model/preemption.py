"""Preemption: where no KV block is left, the last running request goes back to the head of the line."""

from __future__ import annotations

from typing import Any

from kilocard.engine_model.compiled import compiled
from kilocard.engine_model.growth import blocks_at, count_all, count_blocks
from kilocard.engine_model.kv_cache import (
    drop,
    find,
    free_entry,
    free_unnamed,
    full_blocks,
    name,
    own_stream,
    publish,
    unname,
)
from kilocard.engine_model.state import NOBODY, NOTHING, PREFILLS, Rows, Tables
from kilocard.engine_model.waiting import join_line, outranks


@compiled
def victim(tables: Tables, replica: Any, slots: Rows) -> int:
    """Whom to preempt: the last running request, or under priorities the one that all others outrank."""
    chosen = NOBODY
    for place in range(replica.occupied):
        if slots[place].blocks > 0 and (
            chosen == NOBODY
            or not replica.by_priority
            or outranks(tables.requests[slots[chosen].request], tables.requests[slots[place].request])
        ):
            chosen = place
    return chosen


@compiled
def preempt(tables: Tables, replica: Any, slots: Rows, place: int, plan: int, planned: bool) -> None:
    """Free a request's blocks and let it wait, to be computed again; its full blocks can be met until they
    are taken.

    A token is hashed when it is known, and that is a step after it was planned; `planned` tells that this
    plan held the request already. One whose last token is on its way keeps its slot until that is there.
    """
    slot = slots[place]
    request = tables.requests[slot.request]
    computed = hashed = slot.computed
    if slot.last_plan != PREFILLS:
        computed = slot.offset + min(plan - 1, slot.last_plan)
        hashed = max(slot.target, computed - replica.lag + (planned and slot.last_plan >= plan))
    replica.preemptions += 1
    request.preemptions += 1
    if slot.last_plan < plan:
        release(tables, replica, slot, hashed)
        return
    replica.prefilling -= slot.last_plan == PREFILLS
    if slot.last_plan != PREFILLS:
        request.made = computed + 1 - request.prompt
    leave_behind(tables, replica, slot, computed, hashed)
    join_line(tables.requests, replica, request)
    replica.occupied -= 1
    for after in range(place, replica.occupied):
        slots[after] = slots[after + 1]


@compiled
def release(tables: Tables, replica: Any, slot: Any, hashed: int) -> None:
    """Give back the blocks of a request that has all its tokens; those of its streams can be met."""
    if replica.prefix_caching and tables.requests[slot.request].path_length > 0:
        publish(tables, replica, slot, hashed)
    drop(tables, replica, slot, full_blocks(replica, hashed))
    slot.blocks = slot.shared_blocks = slot.held = 0


@compiled
def leave_behind(tables: Tables, replica: Any, slot: Any, computed: int, hashed: int) -> None:
    """Give back the blocks of a request that will go on: what it computed itself stays under its own name."""
    entries = tables.entries
    stream = own_stream(tables.requests[slot.request])
    full = full_blocks(replica, hashed)
    kept = min(full, full_blocks(replica, computed)) - slot.shared_blocks
    if kept > 0:
        left_before = find(entries, replica, stream)
        if left_before != NOTHING:
            unname(entries, replica, left_before)
        free_unnamed(entries, replica, full - slot.shared_blocks - kept)
        at = name(entries, replica, stream, slot.shared_blocks)
        entries[at].cached = kept
        entries[at].references = 0
        free_entry(entries, replica, at)
        slot.blocks -= full - slot.shared_blocks
        full = slot.shared_blocks
    drop(tables, replica, slot, full)


@compiled
def make_room(tables: Tables, replica: Any, slots: Rows, plan: int) -> None:
    """Give every decoding request its block for this plan, in order, preempting where there is none.

    Where one has to give way itself, those behind it are not scheduled.
    """
    count_all(tables.entries, replica, slots, plan - 1)
    place = 0
    gave_way = False
    while place < replica.occupied and not gave_way:
        slot = slots[place]
        if slot.last_plan == PREFILLS or slot.last_plan < plan:
            place += 1
        elif blocks_at(replica, slot, plan) - slot.blocks <= replica.free_blocks:
            count_blocks(tables.entries, replica, slot, plan)
            place += 1
        else:
            chosen = victim(tables, replica, slots)
            occupied = replica.occupied
            preempt(tables, replica, slots, chosen, plan, chosen < place)
            gave_way = chosen == place
            if chosen < place:
                place -= occupied - replica.occupied
    replica.scheduled = place
    for behind in range(place, replica.occupied):
        lose_turn(slots[behind], plan)
    replica.slack_blocks = replica.free_blocks


@compiled
def make_prefill_room(tables: Tables, replica: Any, slots: Rows, plan: int, lacking: int) -> None:
    """Preempt until the last running request, which still prefills, finds its blocks or gives way itself."""
    while replica.prefilling and lacking > replica.free_blocks:
        chosen = victim(tables, replica, slots)
        preempt(tables, replica, slots, chosen, plan, chosen < replica.occupied - 1)
    replica.scheduled = replica.occupied
    replica.slack_blocks = replica.free_blocks


@compiled
def lose_turn(slot: Any, plan: int) -> None:
    """A decoding request gets no token in this plan: all that it does later comes a plan later."""
    if slot.last_plan != PREFILLS and slot.last_plan >= plan:
        slot.offset -= 1
        slot.last_plan += 1
