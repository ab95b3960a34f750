"""What holds for every engine and every demand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from demands import demands, engines, with_room
from engine_tables import build, run, walk
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_engine import Asked, Settings

from kilocard.engine_model.compiled import NEVER_PS


@given(engines, demands(), st.integers(1, 3))
@settings(max_examples=60)
def test_tokens_in_are_tokens_out(engine: Settings, asked: list[Asked], replicas: int) -> None:
    ended = run(build(with_room(engine, asked), asked, replicas))
    rows, replica = ended.tables.requests, ended.replicas
    needed = (rows.prompt + rows.output - 1 - rows.cached).sum()
    assert replica.computed_tokens.sum() >= needed
    assert (rows.cached < rows.prompt).all(), "the last token of a prompt is always computed"
    if replica.preemptions.sum() == 0:
        assert replica.computed_tokens.sum() == needed
        assert replica.hit_tokens.sum() == rows.cached.sum()
        assert replica.asked_tokens.sum() == rows.prompt.sum()


@given(engines, demands(most=12))
@settings(max_examples=25)
def test_no_block_is_leaked_or_used_twice_at_any_moment(engine: Settings, asked: list[Asked]) -> None:
    engine = with_room(engine, asked)
    for ended, _ in walk(build(engine, asked), most_steps=3):
        assert ended.replicas[0].occupied <= engine.max_num_seqs
    assert (ended.replicas.free_blocks == engine.kv_blocks).all()


@given(engines, demands(), st.integers(1, 3))
@settings(max_examples=25)
def test_little(engine: Settings, asked: list[Asked], replicas: int) -> None:
    """Requests present, added up over time, are the times that requests were present, added up."""
    engine = replace(with_room(engine, asked), lag=0)
    now_ps = min(one.arrival_ps for one in asked if one.follows < 0)
    present_ps = present = 0
    for ended, next_ps in walk(build(engine, asked, replicas)):
        present = int((ended.replicas.occupied + ended.replicas.waiting).sum())
        if next_ps < NEVER_PS:
            present_ps += present * (next_ps - now_ps)
            now_ps = next_ps
    rows = ended.tables.requests
    assert present == 0
    assert present_ps == (rows.last_ps - rows.arrival_ps).sum()


@given(engines, demands())
@settings(max_examples=60)
def test_preemption_loses_nothing(engine: Settings, asked: list[Asked]) -> None:
    tight = with_room(replace(engine, kv_blocks=0), asked)
    ended = run(build(tight, asked))
    rows = ended.tables.requests
    assert (rows.arrival_ps <= rows.scheduled_ps).all()
    assert (rows.scheduled_ps < rows.first_ps).all()
    assert ((rows.last_ps - rows.first_ps) >= (rows.output - 1) * tight.step_ps).all()
    assert rows.preemptions.sum() == ended.replicas.preemptions.sum()
    assert ended.replicas.free_blocks[0] == tight.kv_blocks


@given(engines, demands("none", "system prompts", "repeated prompts"))
@settings(max_examples=60)
def test_first_come_first_served(engine: Settings, asked: list[Asked]) -> None:
    rows = run(build(with_room(replace(engine, by_priority=0), asked), asked)).tables.requests
    assert (np.diff(rows.scheduled_ps[np.argsort(rows.arrival_ps, kind="stable")]) >= 0).all()


@given(engines, demands("none", "system prompts", "repeated prompts"))
@settings(max_examples=60)
def test_nobody_begins_while_a_more_important_one_waits(engine: Settings, asked: list[Asked]) -> None:
    engine = replace(with_room(engine, asked), by_priority=1, lag=0)
    rows = run(build(engine, asked)).tables.requests
    for one in rows:
        waits = (rows.arrival_ps <= one.scheduled_ps) & (rows.scheduled_ps > one.scheduled_ps)
        assert (rows.priority[waits] >= one.priority).all()


@given(engines, demands("none", "system prompts", "repeated prompts"), st.integers(2, 5))
@settings(max_examples=60)
def test_bandwidth_only_helps(engine: Settings, asked: list[Asked], times: int) -> None:
    engine = replace(with_room(engine, asked), prefill_floor_ps=0)
    for one in asked:
        one.arrival_ps = 0
    faster = replace(engine, step_ps=engine.step_ps // times, kv_token_ps=engine.kv_token_ps // times)
    slow, fast = (run(build(settings, asked)).tables.requests for settings in (engine, faster))
    assert (fast.first_ps < slow.first_ps).all()
    assert (fast.last_ps < slow.last_ps).all()


@given(st.integers(1, 8), demands("none", most=40), st.integers(0, 1))
@settings(max_examples=60)
def test_a_larger_batch_needs_fewer_steps(most: int, asked: list[Asked], lag: int) -> None:
    for one in asked:
        one.arrival_ps = 0
    steps = [
        run(build(Settings(seqs, 10_000, kv_blocks=10_000, lag=lag), asked)).replicas[0].steps
        for seqs in range(most, most + 3)
    ]
    assert all(larger <= smaller for smaller, larger in pairwise(steps))


@given(engines, demands("none", "system prompts"), st.integers(1, 6), st.integers(1, 3))
@settings(max_examples=60)
def test_a_closed_loop_keeps_its_width(
    engine: Settings, asked: list[Asked], width: int, replicas: int
) -> None:
    for number, one in enumerate(asked):
        one.arrival_ps, one.gap_ps = 0 if number < width else NEVER_PS, 0
    ended = run(build(with_room(engine, asked), asked, replicas), closed_loop=True)
    rows = ended.tables.requests
    later = rows.arrival_ps[width:]
    assert np.isin(later, rows.last_ps).all(), "one comes with every answer"
    present = [((rows.arrival_ps <= at) & (rows.last_ps > at)).sum() for at in np.sort(rows.arrival_ps)]
    assert max(present) <= width


@given(engines, demands("turns"))
@settings(max_examples=60)
def test_a_turn_follows_the_answer_before_it(engine: Settings, asked: list[Asked]) -> None:
    rows = run(build(with_room(engine, asked), asked)).tables.requests
    for one in asked:
        if one.follows >= 0:
            assert rows[one.number].arrival_ps == rows[one.follows].last_ps + one.gap_ps
