"""The engine model against vLLM's algorithm written down plainly: the same tokens at the same picosecond."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from engine_tables import build, run
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_engine import Asked, NaiveEngine, Settings

engines = st.builds(
    Settings,
    max_num_seqs=st.integers(1, 8),
    max_num_batched_tokens=st.integers(8, 96),
    block_tokens=st.sampled_from([1, 4, 16]),
    kv_blocks=st.integers(0, 40),
    state_blocks=st.sampled_from([0, 0, 3]),
    lag=st.integers(0, 1),
    waves=st.sampled_from([0, 0, 1]),
    by_priority=st.integers(0, 1),
    prefix_caching=st.integers(0, 1),
)


@st.composite
def demands(draw: st.DrawFn, sharing: str) -> list[Asked]:
    """Up to 20 requests; `sharing`: none, system prompts, whole prompts that repeat, or turns."""
    count = draw(st.integers(1, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread_ps = int(draw(st.sampled_from([0, 1, 20, 200])) * 1_000_000)
    system = [int(tokens) for tokens in rng.integers(1, 60, 3)]
    asked: list[Asked] = []
    lengths = rng.integers(1, 60, count)
    for number in range(count):
        group, tail, user = int(rng.integers(3)), int(lengths[number]), int(rng.integers(4))
        prompt, path, follows = tail, (), -1
        if sharing == "system prompts":
            prompt, path = system[group] + tail, ((group, system[group]),)
        elif sharing == "repeated prompts":
            prompt = system[user % 3] + int(lengths[user % count])
            path = ((user % 3, system[user % 3]), (3 + user, prompt - 1))
        elif sharing == "turns":
            prompt, path = system[group] + tail, ((group, system[group]),)
            before = asked[-1] if asked and rng.random() < 0.6 else None
            if before is not None and before.prompt + before.output < 160:
                follows, path = before.number, before.path[:1]
                prompt = before.prompt + before.output + tail
        output = int(rng.integers(1, 40))
        if sharing == "turns":
            opening = number if follows < 0 else _opening(asked, follows)
            path += ((3 + opening, prompt + output),)
        asked.append(
            Asked(number, int(rng.integers(0, spread_ps + 1)), prompt, output, int(rng.integers(3)), path,
                  follows, int(rng.integers(0, 3)) * 500_000)
        )  # fmt: skip
    return asked


def _opening(asked: list[Asked], number: int) -> int:
    while asked[number].follows >= 0:
        number = asked[number].follows
    return number


def with_room(engine: Settings, asked: list[Asked]) -> Settings:
    """At least as many blocks as the longest request needs."""
    longest = max(one.prompt + one.output for one in asked)
    least = -(-longest // engine.block_tokens) + engine.state_blocks
    return replace(
        engine,
        kv_blocks=least + engine.kv_blocks * (1 if engine.block_tokens > 1 else 8),
        max_num_batched_tokens=max(engine.max_num_batched_tokens, engine.max_num_seqs),
    )


def check(engine: Settings, asked: list[Asked]) -> None:
    engine = with_room(engine, asked)
    naive = NaiveEngine(engine)
    modelled = run(build(engine, asked))
    naive.serve(asked)
    rows, replica = modelled.tables.requests, modelled.replicas[0]
    for name in ("first_ps", "last_ps", "preemptions", "cached"):
        assert rows[name].tolist() == [getattr(one, name) for one in asked], name
    assert replica.steps == naive.steps
    assert replica.computed_tokens == naive.computed_tokens
    assert len(naive.pool.free) == replica.free_blocks == engine.kv_blocks


@given(engines, demands("none"))
@settings(max_examples=60)
def test_requests_that_share_nothing(engine: Settings, asked: list[Asked]) -> None:
    check(engine, asked)


@given(engines, demands("system prompts"))
@settings(max_examples=60)
def test_system_prompts(engine: Settings, asked: list[Asked]) -> None:
    check(engine, asked)


@given(engines, demands("repeated prompts"))
@settings(max_examples=60)
def test_prompts_that_repeat(engine: Settings, asked: list[Asked]) -> None:
    check(engine, asked)


@given(engines, demands("turns"))
@settings(max_examples=60)
def test_conversations(engine: Settings, asked: list[Asked]) -> None:
    check(engine, asked)
