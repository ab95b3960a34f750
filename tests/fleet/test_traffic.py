"""A demand's requests: their times, lengths, what they share, who follows whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.fleet.traffic import NOBODY, Traffic, draw_parts, draw_traffic
from kilocard.specs import Demand

LENGTHS = {"prompt_tokens": 64, "output_tokens": 8}


def drawn(seed: int = 0, **demand: Any) -> Traffic:
    return draw_traffic(Demand.model_validate({**LENGTHS, **demand}), seed)


demands = st.fixed_dictionaries(
    {
        "rate_per_s": st.floats(0.1, 100),
        "requests": st.integers(1, 200),
        "arrivals": st.sampled_from(["constant", "poisson", "gamma"]),
        "prompt_tokens": st.sampled_from([300, {"kind": "heavy_tail", "least_tokens": 200, "alpha": 2.0,
                                                "most_tokens": 900}]),
        "output_tokens": st.sampled_from([1, {"kind": "lognormal", "mean_tokens": 50, "cv": 1.0,
                                              "most_tokens": 100}]),
        "system_prompts": st.none() | st.fixed_dictionaries(
            {"count": st.integers(1, 4), "tokens": st.integers(1, 150)},
            optional={"users_each": st.integers(1, 5)},
        ),
        "priority": st.none() | st.just({0: 0.2, 5: 0.8}),
    },
    optional={"turns": st.integers(1, 4)},
)  # fmt: skip


@given(demands, st.integers(0, 2**32 - 1))
@settings(max_examples=80)
def test_every_request_is_whole(demand: dict[str, Any], seed: int) -> None:
    traffic, again = drawn(seed, **demand), drawn(seed, **demand)
    turns = demand.get("turns", 1)
    assert len(traffic) == demand["requests"] * turns
    follows = traffic.follows != NOBODY
    assert (np.isfinite(traffic.arrival_s) == ~follows).all()
    assert follows.sum() == demand["requests"] * (turns - 1)
    assert (traffic.follows[follows] < np.nonzero(follows)[0]).all()
    assert (traffic.prompt_tokens > 0).all() and (traffic.output_tokens > 0).all()
    assert (traffic.arrival_s[~follows] >= 0).all()
    for name in ("arrival_s", "prompt_tokens", "output_tokens", "priority"):
        assert getattr(traffic, name).tobytes() == getattr(again, name).tobytes()


@given(demands, st.integers(0, 2**32 - 1))
@settings(max_examples=80)
def test_paths_run_through_prompts_in_order(demand: dict[str, Any], seed: int) -> None:
    traffic = drawn(seed, **demand)
    paths = traffic.paths
    for i in range(len(traffic)):
        ends = paths.end_tokens[paths.starts[i] : paths.starts[i] + paths.lengths[i]]
        assert (np.diff(ends) >= 0).all()
        assert (ends <= traffic.prompt_tokens[i] + traffic.output_tokens[i]).all()


@given(demands, st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_a_turn_says_again_all_that_was_said(demand: dict[str, Any], seed: int) -> None:
    traffic = drawn(seed, **demand)
    later = np.nonzero(traffic.follows != NOBODY)[0]
    before = traffic.follows[later]
    assert (
        traffic.prompt_tokens[later] > traffic.prompt_tokens[before] + traffic.output_tokens[before]
    ).all()


def test_a_stage_lasts_as_long_as_it_should_at_its_rate() -> None:
    stages = [{"rate_per_s": 50, "duration_s": 40}, {"rate_per_s": 200, "duration_s": 40}]
    traffic = drawn(stages=stages)
    for number, (begin_s, rate) in enumerate([(0, 50), (40, 200)]):
        at_s = traffic.arrival_s[traffic.stage == number]
        assert begin_s <= at_s.min() and at_s.max() <= begin_s + 40.001
        assert len(at_s) == pytest.approx(rate * 40, rel=0.1)


def test_priorities_are_shared_out() -> None:
    traffic = drawn(rate_per_s=1, requests=10_000, priority={0: 1, 7: 3})
    assert set(traffic.priority) == {0, 7}
    assert (traffic.priority == 7).mean() == pytest.approx(0.75, abs=0.02)


def test_distinct_prompts_repeat_in_turn_with_their_lengths() -> None:
    lengths = {"kind": "lognormal", "mean_tokens": 100, "cv": 0.5, "most_tokens": 300}
    traffic = drawn(rate_per_s=1, requests=90, distinct_prompts=45, prompt_tokens=lengths)
    assert (traffic.prompt_tokens[:45] == traffic.prompt_tokens[45:]).all()
    assert (traffic.paths.streams[:45] == traffic.paths.streams[45:]).all()
    assert len(set(traffic.paths.streams)) == 45


def test_each_level_of_a_closed_loop_stands_by_itself() -> None:
    stages = [{"concurrency": 2, "requests": 5}, {"concurrency": 3, "requests": 2}]
    first, second = draw_parts(Demand.model_validate({**LENGTHS, "stages": stages}), 0)
    assert first.arrival_s.tolist() == [0, 0, np.inf, np.inf, np.inf]
    assert second.arrival_s.tolist() == [0, 0]
    assert set(second.stage) == {1}
    assert first.closed_loop and second.closed_loop


def test_a_system_prompt_needs_room() -> None:
    with pytest.raises(KilocardError, match="no room for a system prompt of 64"):
        drawn(rate_per_s=1, requests=2, system_prompts={"tokens": 64})


def test_a_rate_over_a_long_time_is_too_many_requests() -> None:
    with pytest.raises(KilocardError, match="requests in a stage"):
        drawn(stages=[{"rate_per_s": 100_000, "duration_s": 100_000}])
