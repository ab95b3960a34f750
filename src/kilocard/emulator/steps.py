"""The engine model's compiled functions as an emulated engine calls them: one plan at a time, from Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from kilocard.emulator.buckets import GAP_BOUNDS_PS, STEP_TOKEN_BOUNDS
from kilocard.engine_model.cancel import cancel, empty_cache, forget_own
from kilocard.engine_model.compiled import compiled_entry
from kilocard.engine_model.growth import count_all
from kilocard.engine_model.scheduler import arrive, make_plan, run_end_ps
from kilocard.engine_model.state import NOBODY, PREFILLS, Engines

HEAD = 4
"""Fields of `Desk.told` before its lists: the next plan's time, the end of the planned step, how many get a
token with it, how many are done."""

FULL = -1
"""Nothing was planned: the KV caches' table has to grow first."""


class Desk(NamedTuple):
    """What the calls tell: `told` of the last plan, `seen_ps` each row's last token, and two histograms a
    replica (a count a bucket, then the sum)."""

    told: NDArray[np.int64]
    seen_ps: NDArray[np.int64]
    gaps: NDArray[np.int64]
    step_tokens: NDArray[np.int64]


def new_desk(engines: Engines) -> Desk:
    """An empty one for these engines."""
    replicas, most = engines.slots.shape
    return Desk(
        np.zeros(HEAD + 2 * most, np.int64),
        np.full(len(engines.tables.requests), NOBODY),
        np.zeros((replicas, len(GAP_BOUNDS_PS) + 2), np.int64),
        np.zeros((replicas, len(STEP_TOKEN_BOUNDS) + 2), np.int64),
    )


def enter(
    engines: Engines, r: int, row: int, prompt: int, output: int, priority: int, path: int, now_ps: int
) -> int:
    """A request, written into a row, reaches replica `r`; returns when the next plan is due."""
    request = engines.tables.requests[row]
    request.arrival_ps = now_ps
    request.prompt = prompt
    request.output = output
    request.priority = priority
    request.path_length = path
    request.scheduled_ps = request.first_ps = request.last_ps = request.behind = NOBODY
    request.made = request.cached = request.preemptions = 0
    arrive(engines.tables.requests, engines.replicas[r], request, now_ps)
    return engines.replicas[r].event_ps


def advance(engines: Engines, desk: Desk, r: int) -> int:
    """Make the plan that is due on replica `r` and fill the desk; FULL if the table has to grow first."""
    entries = engines.tables.entries
    if entries[0].cached < len(entries) // 8:
        return FULL
    replica = engines.replicas[r]
    slots = engines.slots[r]
    make_plan(engines.tables, replica, slots, engines.base_ps[replica.costs], 1)
    end_ps = run_end_ps(replica, 1)
    tokens = done = 0
    for place in range(replica.scheduled):
        slot = slots[place]
        if slot.last_plan != PREFILLS and slot.last_plan >= replica.plan:
            desk.told[HEAD + tokens] = slot.request
            tokens += 1
            if desk.seen_ps[slot.request] != NOBODY:
                gap_ps = end_ps - desk.seen_ps[slot.request]
                bucket = np.searchsorted(GAP_BOUNDS_PS, gap_ps)
                desk.gaps[r, bucket] += 1
                desk.gaps[r, -1] += gap_ps
            desk.seen_ps[slot.request] = end_ps
    while replica.finished != NOBODY:
        request = engines.tables.requests[replica.finished]
        desk.told[HEAD + tokens + done] = replica.finished
        done += 1
        replica.finished = request.behind
        forget_own(engines.tables, replica, request)
    if replica.tokens > 0:
        desk.step_tokens[r, np.searchsorted(STEP_TOKEN_BOUNDS, replica.tokens)] += 1
        desk.step_tokens[r, -1] += replica.tokens
    desk.told[0] = replica.event_ps
    desk.told[1] = end_ps
    desk.told[2] = tokens
    desk.told[3] = done
    return tokens


def withdraw(engines: Engines, r: int, row: int) -> int:
    """Take a request off replica `r`; 0 where it had all its tokens already and leaves by itself."""
    return cancel(engines.tables, engines.replicas[r], engines.slots[r], engines.tables.requests[row])


def free_blocks(engines: Engines, r: int) -> int:
    """The KV blocks of replica `r` that nobody holds, counted exactly."""
    replica = engines.replicas[r]
    count_all(engines.tables.entries, replica, engines.slots[r], replica.plan)
    return replica.free_blocks


def wipe(engines: Engines, r: int) -> int:
    """Let replica `r`, which is idle, forget all that it has cached and counted."""
    replica = engines.replicas[r]
    empty_cache(engines.tables.entries, replica)
    replica.steps = replica.busy_ps = replica.computed_tokens = replica.preemptions = 0
    replica.hit_tokens = replica.asked_tokens = 0
    return replica.free_blocks


class Calls(NamedTuple):
    """The functions above, in machine code unless `NUMBA_DISABLE_JIT=1`."""

    enter: Callable[..., int]
    advance: Callable[..., int]
    withdraw: Callable[..., int]
    free_blocks: Callable[..., int]
    wipe: Callable[..., int]


@lru_cache(maxsize=1)
def compile_calls(engines: types.Type, desk: types.Type) -> Calls:
    """Compiled for the types of these tables, which are always the same, and kept for the next process."""
    number = types.int64
    return Calls(
        compiled_entry(enter, number(engines, *[number] * 7)),
        compiled_entry(advance, number(engines, desk, number)),
        compiled_entry(withdraw, number(engines, number, number)),
        compiled_entry(free_blocks, number(engines, number)),
        compiled_entry(wipe, number(engines, number)),
    )
