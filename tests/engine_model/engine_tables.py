"""The engine model's tables for the settings and requests of the naive engine, and its loop over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from naive_engine import Asked, Settings
from numba import config, typeof, types

from kilocard.engine_model.compiled import NEVER_PS, compiled_entry
from kilocard.engine_model.state import (
    NOTHING,
    PATH,
    REPLICA,
    SLOT,
    Engines,
    Tables,
    grown_entries,
    new_entries,
    new_replica,
    new_requests,
    table,
)
from kilocard.fleet.desk import new_desk
from kilocard.fleet.loop import BUSY, CROWDED, REACHED, Agenda, new_agenda, run_events
from kilocard.routing.chance import new_random
from kilocard.routing.policies import POLICIES, POLICY_TYPE, compile_policy, looks_beyond_counts
from kilocard.routing.replicas import new_replicas

ALL_STEPS = 2**40
SAME = (
    "max_num_seqs", "max_num_batched_tokens", "block_tokens", "kv_blocks", "state_blocks", "lag", "waves",
    "by_priority", "prefix_caching", "kv_token_ps", "sequence_ps", "prefill_step_ps", "pair_ps",
    "prefill_floor_ps",
)  # fmt: skip


def build(settings: Settings, asked: Sequence[Asked], replicas: int = 1, entries: int = 64) -> Engines:
    """Idle engines of these settings, and the requests."""
    rows = table(replicas, REPLICA)
    rows.number = np.arange(replicas)
    rows.slow_permille = 1000
    for name in SAME:
        rows[name] = getattr(settings, name)
    new_replica(rows)
    requests = new_requests(len(asked))
    paths = table(sum(len(one.path) for one in asked) + 1, PATH)
    at = 0
    for row, one in zip(requests, asked, strict=True):
        row.number, row.prompt, row.output, row.priority = one.number, one.prompt, one.output, one.priority
        row.arrival_ps = NEVER_PS if one.follows >= 0 else one.arrival_ps
        row.gap_ps, row.path_at, row.path_length = one.gap_ps, at, len(one.path)
        for stream, end in one.path:
            paths[at].stream, paths[at].end_tokens = stream, end
            at += 1
        if one.follows >= 0:
            requests[one.follows].successor = one.number
    tokens = np.arange(settings.max_num_batched_tokens + 1)
    base_ps = (settings.step_ps + settings.token_ps * tokens)[None, :]
    slots = table((replicas, settings.max_num_seqs), SLOT)
    return Engines(rows, slots, base_ps, Tables(requests, paths, new_entries(entries)))


def run(
    engines: Engines,
    most_steps: int = ALL_STEPS,
    policy: str = "round-robin",
    seed: int = 0,
    closed_loop: bool = False,
) -> Engines:
    """Everything that is to happen to them."""
    return list(walk(engines, most_steps, policy, seed, closed_loop, events=ALL_STEPS))[-1][0]


def walk(
    engines: Engines,
    most_steps: int = ALL_STEPS,
    policy: str = "round-robin",
    seed: int = 0,
    closed_loop: bool = False,
    events: int = 1,
) -> Iterator[tuple[Engines, int]]:
    """A few events at a time: the engines after each, and when the next event is due."""
    agenda, random = new_agenda(engines.tables.requests, len(engines.replicas), closed_loop), new_random(seed)
    replicas = new_replicas(len(engines.replicas))
    desk = new_desk(engines.tables.requests, len(engines.replicas), looks_beyond_counts(POLICIES[policy]))
    loop = _loop(*(typeof(table) for table in (engines, agenda, desk, replicas, random)))
    chosen = _policy(policy)
    stopped = BUSY
    while stopped != REACHED:
        stopped = loop(chosen, engines, agenda, desk, replicas, random, most_steps, events, NEVER_PS)
        check_blocks(engines)
        if stopped == CROWDED:
            tables = engines.tables._replace(entries=grown_entries(engines.tables.entries))
            engines = engines._replace(tables=tables)
        yield engines, next_event_ps(engines, agenda)
    assert agenda.counts[2] == len(engines.tables.requests), "a request is lost"
    assert (replicas.active == 0).all()


def next_event_ps(engines: Engines, agenda: Agenda) -> int:
    """When something happens next."""
    requests = engines.tables.requests
    due = [agenda.due_ps[agenda.heap[0]]]
    if agenda.counts[0] < len(agenda.arrivals):
        due.append(requests[agenda.arrivals[agenda.counts[0]]].arrival_ps)
    if agenda.followers.length[0] > 0:
        due.append(agenda.followers.at_ps[0])
    return int(min(due))


def check_blocks(engines: Engines) -> None:
    """Every block is free once, in a running request once, or in an entry that running requests refer to."""
    entries = engines.tables.entries
    rows = len(entries) // 2
    unused, at = 0, entries[0].newer
    while at != NOTHING:
        unused, at = unused + 1, entries[at].newer
    assert unused == entries[0].cached
    used = entries.place[entries.place != NOTHING]
    assert len(np.unique(used)) == len(used) == rows - 1 - unused, "an entry is lost, or found twice"
    for r, replica in enumerate(engines.replicas):
        free, at, before = replica.unnamed_blocks, replica.oldest, NOTHING
        while at != NOTHING:
            assert entries[at].references == 0
            assert entries[at].older == before
            assert entries[at].cached > 0
            free += entries[at].cached + entries[at].unnamed_after
            before, at = at, entries[at].newer
        assert replica.newest == before
        assert free == replica.free_blocks
        assert 0 <= replica.slack_blocks <= replica.free_blocks
        slots = engines.slots[r][: replica.occupied]
        own = int((slots.blocks - slots.shared_blocks).sum())
        mine = entries[used][entries[used].replica == replica.number]
        held = int(mine[mine.references > 0].cached.sum())
        assert free + own + held == replica.kv_blocks, "a block is leaked or used twice"
        references = sum(
            _begins_block(engines, slot, j, replica.block_tokens) for slot in slots for j in range(slot.held)
        )
        assert references == mine.references.sum()


def _begins_block(engines: Engines, slot: Any, j: int, block_tokens: int) -> bool:
    """Whether a slot's `j`-th stream has blocks of its own."""
    request = engines.tables.requests[slot.request]
    ends = [0, *engines.tables.paths.end_tokens[request.path_at : request.path_at + request.path_length]]
    return bool(ends[j + 1] // block_tokens > ends[j] // block_tokens)


def _policy(name: str) -> Any:
    return POLICIES[name] if config.DISABLE_JIT else _compiled_policy(name)


@cache
def _compiled_policy(name: str) -> Any:
    return compile_policy(POLICIES[name])


@cache
def _loop(*tables: Any) -> Any:
    return compiled_entry(run_events, types.int64(POLICY_TYPE, *tables, *[types.int64] * 3))
