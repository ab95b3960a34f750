"""The scheduler of one engine, as vLLM V1 does it: who gets tokens in the next step, and how long that step
lasts.

A plan takes the running requests in order (a decode is one missing token, a prefill a chunk), then the
waiting ones, up to the token budget. With asynchronous scheduling a plan is made while the step before it
runs, so an arrival waits out the current step and one more. When nothing changes from step to step (everybody
decodes, nobody ends, nobody can join) the plans are alike: `make_plan` makes a whole run of them at once, and
stays exact to the step, because the time of a run has a closed form.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import NEVER_PS, compiled
from kilocard.engine_model.growth import count_all, count_blocks, reserve, settle
from kilocard.engine_model.kv_cache import look_up, publish, take
from kilocard.engine_model.preemption import make_prefill_room, make_room, release
from kilocard.engine_model.state import PREFILLS, Rows, Tables
from kilocard.engine_model.waiting import join_line, leave_line


@compiled
def run_end_ps(replica: Any, steps: int) -> int:
    """When the first `steps` steps of the present run end: each reads `decoding` tokens of KV more than the
    last."""
    return replica.run_start_ps + steps * replica.step_ps + replica.slope_ps * (steps * (steps - 1) // 2)


@compiled
def arrive(requests: Rows, replica: Any, request: Any, now_ps: int) -> None:
    """A request reaches an engine: it waits for the next plan, and a run of like plans is cut short for
    it."""
    request.replica = replica.number
    heads = join_line(requests, replica, request)
    if replica.event_ps == NEVER_PS:
        replica.event_ps = now_ps
    elif heads and replica.occupied < replica.max_num_seqs and not (replica.waves and replica.occupied > 0):
        cut_run(replica, now_ps)


@compiled
def cut_run(replica: Any, now_ps: int) -> None:
    """End the run at the first plan that is made at or after `now_ps`."""
    low = 1
    high = replica.run_steps
    while low < high:
        middle = (low + high) // 2
        if run_end_ps(replica, middle - replica.lag) >= now_ps:
            high = middle
        else:
            low = middle + 1
    replica.run_steps = high
    replica.event_ps = run_end_ps(replica, high - replica.lag)


@compiled
def retire(tables: Tables, replica: Any, slots: Rows, plan: int, ended_ps: int) -> tuple[int, int, int]:
    """Stamp those whose last token came with the step that ended, and free those with nothing in flight.

    Counts who decodes next; returns the KV tokens they read, the last plan before one of them ends, and who
    is still held.
    """
    context = held = kept = decoding = 0
    first_end = PREFILLS
    for place in range(replica.occupied):
        slot = slots[place]
        if slot.last_plan == plan - 1:
            tables.requests[slot.request].last_ps = ended_ps
        if slot.last_plan + replica.lag < plan:
            settle(tables.entries, replica, slots, plan - 1)
            finish(tables, replica, slot)
            continue
        if slot.last_plan < plan:
            held += 1
        elif slot.last_plan != PREFILLS:
            decoding += 1
            context += slot.offset + plan
            first_end = min(first_end, slot.last_plan)
        if kept != place:
            slots[kept] = slot
        kept += 1
    replica.occupied = kept
    replica.decoding = decoding
    return context, first_end, held


@compiled
def count_decoding(replica: Any, slots: Rows, plan: int, places: int) -> int:
    """Count who decodes in a plan that preempted; returns the KV tokens they read."""
    context = 0
    replica.decoding = 0
    for place in range(places):
        slot = slots[place]
        if plan <= slot.last_plan != PREFILLS:
            replica.decoding += 1
            context += slot.offset + plan
    return context


@compiled
def finish(tables: Tables, replica: Any, slot: Any) -> None:
    """A request has all its tokens: free its blocks, and let the caller find it among the finished."""
    if slot.blocks > 0:
        count_blocks(tables.entries, replica, slot, slot.last_plan)
        before = replica.free_blocks
        release(tables, replica, slot, slot.offset + slot.last_plan)
        replica.slack_blocks += replica.free_blocks - before
    request = tables.requests[slot.request]
    request.behind = replica.finished
    replica.finished = slot.request


@compiled
def compute(tables: Tables, replica: Any, slot: Any, plan: int, chunk: int) -> int:
    """Plan `chunk` prompt tokens of a request, which turns to decoding with the last; returns the pairs
    attended."""
    request = tables.requests[slot.request]
    lacking = lacking_blocks(replica, slot, chunk)
    take(tables.entries, replica, lacking)
    replica.slack_blocks -= lacking
    slot.blocks += lacking
    pairs = chunk * slot.computed + chunk * (chunk + 1) // 2
    slot.computed += chunk
    if replica.prefix_caching and request.path_length > 0:
        publish(tables, replica, slot, slot.computed)
    replica.prefilling = slot.computed < slot.target
    if slot.computed == slot.target:
        slot.offset = slot.target - plan
        slot.last_plan = plan + request.output - request.made - 1
    return pairs


@compiled
def blocks_for(replica: Any, tokens: int) -> int:
    """KV blocks of a request of so many tokens, its fixed state among them."""
    return replica.state_blocks + (tokens + replica.block_tokens - 1) // replica.block_tokens


@compiled
def lacking_blocks(replica: Any, slot: Any, chunk: int) -> int:
    """Blocks that a prefilling request needs for its next `chunk` tokens."""
    return blocks_for(replica, slot.computed + chunk) - slot.blocks


@compiled
def continue_prefill(tables: Tables, replica: Any, slots: Rows, plan: int, budget: int) -> tuple[int, int]:
    """The next chunk of the last running request, which still prefills: its tokens, and pairs attended."""
    slot = slots[replica.occupied - 1]
    chunk = min(slot.target - slot.computed, budget)
    lacking = lacking_blocks(replica, slot, chunk)
    if lacking > replica.slack_blocks:
        count_all(tables.entries, replica, slots, plan)
    if lacking > replica.slack_blocks:
        make_prefill_room(tables, replica, slots, plan, lacking)
    if replica.prefilling == 0:
        return 0, 0
    return chunk, compute(tables, replica, slots[replica.occupied - 1], plan, chunk)


@compiled
def admit(tables: Tables, replica: Any, slots: Rows, plan: int, budget: int) -> tuple[int, int]:
    """Let the head of the line run, if its whole prompt finds room: its tokens in this plan, and pairs;
    else (0, 0)."""
    request = tables.requests[replica.waiting_head]
    target = request.prompt + request.made
    whole = blocks_for(replica, target)
    named = replica.prefix_caching and (request.path_length > 0 or request.preemptions > 0)
    hits = shared = revived = passed = 0
    if named:
        settle(tables.entries, replica, slots, plan)
        hits, shared, revived, passed = look_up(tables, replica, request, False)
    if whole - hits + revived > replica.slack_blocks:
        count_all(tables.entries, replica, slots, plan)
    if whole - hits + revived > replica.slack_blocks:
        return 0, 0
    if named:
        before = replica.free_blocks
        look_up(tables, replica, request, True)
        replica.slack_blocks -= before - replica.free_blocks
    leave_line(tables.requests, replica)
    slot = slots[replica.occupied]
    replica.occupied += 1
    replica.scheduled = replica.occupied
    slot.request = request.number
    slot.target = target
    slot.computed = hits * replica.block_tokens
    slot.last_plan = PREFILLS
    slot.blocks = hits
    slot.shared_blocks = shared
    slot.held = passed
    if request.preemptions == 0:
        request.cached = slot.computed
    replica.hit_tokens += slot.computed
    replica.asked_tokens += target
    chunk = min(target - slot.computed, budget)
    return chunk, compute(tables, replica, slot, plan, chunk)


@compiled
def stamp_prefills(tables: Tables, replica: Any, slots: Rows, first: int) -> None:
    """Note when those who computed prompt tokens in this plan began, and when their first token came."""
    for place in range(first, replica.occupied):
        request = tables.requests[slots[place].request]
        if request.scheduled_ps < 0:
            request.scheduled_ps = replica.run_start_ps
        if slots[place].last_plan != PREFILLS and request.first_ps < 0:
            request.first_ps = run_end_ps(replica, 1)


@compiled
def close_run(replica: Any) -> int:
    """Count the run that ends; returns when its last step ends."""
    ended_ps = run_end_ps(replica, replica.run_steps)
    if replica.tokens > 0:
        replica.steps += replica.run_steps
        replica.computed_tokens += replica.tokens * replica.run_steps
        replica.busy_ps += ended_ps - replica.run_start_ps
    replica.plan += replica.run_steps
    return ended_ps


@compiled
def slowed_ps(lasts_ps: int, permille: int) -> int:
    """So many thousandths of a time, whole, without a product that 64 bits might not hold."""
    return lasts_ps // 1000 * permille + lasts_ps % 1000 * permille // 1000


@compiled
def step_ps(replica: Any, base_ps: NDArray[np.int64], context: int, prefills: int, pairs: int) -> int:
    """How long the planned step lasts: its tokens, the KV that it reads, the pairs attended, its requests."""
    if replica.tokens == 0:
        return 0
    lasts_ps = (
        slowed_ps(base_ps[replica.tokens], replica.slow_permille)
        + context * replica.kv_token_ps
        + pairs * replica.pair_ps
        + (replica.decoding + prefills) * replica.sequence_ps
        + (prefills > 0) * replica.prefill_step_ps
    )
    return max(lasts_ps, (prefills > 0) * replica.prefill_floor_ps)


@compiled
def make_plan(tables: Tables, replica: Any, slots: Rows, base_ps: NDArray[np.int64], most_steps: int) -> None:
    """Make the plan that is due, and as many more as must be like it, up to `most_steps` in all."""
    ended_ps = close_run(replica)
    plan = replica.plan
    preemptions = replica.preemptions
    context, first_end, held = retire(tables, replica, slots, plan, ended_ps)
    replica.scheduled = replica.occupied
    if reserve(tables, replica, slots, plan, 1) == 0:
        make_room(tables, replica, slots, plan)
        context = count_decoding(replica, slots, plan, replica.scheduled)

    budget = replica.max_num_batched_tokens - replica.decoding
    prefills = pairs = 0
    if replica.prefilling and replica.scheduled == replica.occupied:
        chunk, pairs = continue_prefill(tables, replica, slots, plan, budget)
        prefills += chunk > 0
        if replica.preemptions > preemptions:
            context = count_decoding(replica, slots, plan, replica.occupied - prefills)
        budget = replica.max_num_batched_tokens - replica.decoding - chunk
    replica.gathering |= replica.occupied == 0
    while (
        replica.waiting > 0
        and budget > 0
        and replica.occupied < replica.max_num_seqs
        and replica.preemptions == preemptions
        and (replica.gathering or not replica.waves)
    ):
        chunk, attended = admit(tables, replica, slots, plan, budget)
        if chunk == 0:
            break
        budget -= chunk
        pairs += attended
        prefills += 1
    replica.gathering &= budget == 0
    for place in range(replica.occupied - prefills, replica.occupied):
        context += slots[place].computed

    replica.tokens = replica.max_num_batched_tokens - budget
    replica.run_start_ps = max(replica.event_ps, ended_ps)
    replica.run_steps = 1
    replica.slope_ps = replica.decoding * replica.kv_token_ps
    replica.step_ps = step_ps(replica, base_ps, context, prefills, pairs)
    stamp_prefills(tables, replica, slots, replica.occupied - prefills)

    alike = replica.tokens > 0 and prefills == 0 and replica.preemptions == preemptions
    if alike and (held == 0 or replica.lag == 0):
        replica.run_steps += reserve(tables, replica, slots, plan + 1, min(first_end - plan, most_steps - 1))
    replica.event_ps = run_end_ps(replica, replica.run_steps - replica.lag)
    if replica.occupied == 0 and replica.waiting == 0:
        replica.run_steps = 0
        replica.event_ps = NEVER_PS
