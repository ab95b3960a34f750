"""Random engines and requests, small enough for caches to run out and queues to form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from naive_engine import Asked, Settings

SHARING = ("none", "system prompts", "repeated prompts", "turns", "hashed blocks")
HASHED_TOKENS = 8

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
def demands(draw: st.DrawFn, *sharing: str, most: int = 20) -> list[Asked]:
    """Requests whose prompts share nothing, system prompts, or all; or that follow each other as turns."""
    chosen = draw(st.sampled_from(sharing or SHARING))
    count = draw(st.integers(1, most))
    spread_ps = draw(st.sampled_from([0, 1, 20, 200])) * 1_000_000
    return draw_demand(chosen, count, spread_ps, draw(st.integers(0, 2**32 - 1)))


def draw_demand(sharing: str, count: int, spread_ps: int, seed: int) -> list[Asked]:
    """`count` requests within `spread_ps`; the same seed always gives the same."""
    rng = np.random.default_rng(seed)
    system = [int(tokens) for tokens in rng.integers(1, 60, 3)]
    tails = [int(tokens) for tokens in rng.integers(1, 60, count)]
    asked: list[Asked] = []
    for number, tail in enumerate(tails):
        group, user, output = (int(rng.integers(most)) for most in (3, 4, 39))
        prompt, follows, path = tail, -1, ()
        if sharing == "system prompts":
            prompt, path = system[group] + tail, ((group, system[group]),)
        elif sharing == "repeated prompts":
            prompt = system[user % 3] + tails[user % count]
            path = ((user % 3, system[user % 3]), (3 + user, prompt - 1))
        elif sharing == "turns":
            prompt, talk, path = system[group] + tail, 3 + number, ((group, system[group]),)
            if asked and rng.random() < 0.6 and asked[-1].prompt + asked[-1].output < 160:
                follows, path, talk = number - 1, asked[-1].path[:1], asked[-1].path[1][0]
                prompt = asked[-1].prompt + asked[-1].output + tail
            path += ((talk, prompt + output + 1),)
        elif sharing == "hashed blocks":
            prompt, path = _hashed(asked, tail, rng)
        asked.append(
            Asked(
                number,
                arrival_ps=int(rng.integers(0, spread_ps + 1)),
                prompt=prompt,
                output=output + 1,
                priority=int(rng.integers(3)),
                path=path,
                follows=follows,
                gap_ps=int(rng.integers(0, 3)) * 500_000,
            )
        )
    return asked


def _hashed(
    asked: list[Asked], tail: int, rng: np.random.Generator
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """A prompt of named blocks that begins like an earlier one, or repeats it; the last block is not full."""
    earlier = asked[int(rng.integers(len(asked)))] if asked else None
    if earlier and rng.random() < 0.3:
        return earlier.prompt, earlier.path
    whole = earlier.path[: int(rng.integers(len(earlier.path)))] if earlier else ()
    fresh = range(1000 * (len(asked) + 1), 1000 * (len(asked) + 1) + 1 + tail // HASHED_TOKENS)
    names = [*(stream for stream, _ in whole), *fresh]
    prompt = HASHED_TOKENS * len(names) - int(rng.integers(1, HASHED_TOKENS))
    ends = [min(HASHED_TOKENS * (number + 1), prompt - 1) for number in range(len(names))]
    return prompt, tuple(zip(names, ends, strict=True))


def with_room(engine: Settings, asked: list[Asked]) -> Settings:
    """At least as many blocks as the longest request needs, and a token a step for each running one."""
    longest = max(one.prompt + one.output for one in asked)
    least = -(-longest // engine.block_tokens) + engine.state_blocks
    return replace(
        engine,
        kv_blocks=least + engine.kv_blocks * (1 if engine.block_tokens > 1 else 8),
        max_num_batched_tokens=max(engine.max_num_batched_tokens, engine.max_num_seqs),
    )
