"""A watched engine: its steps add up to its requests, and are those of the simulator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.engine_model.step_time import StepTime
from kilocard.engine_model.watch import watch
from kilocard.errors import KilocardError
from kilocard.record import Kind
from kilocard.specs.case import EngineSettings
from kilocard.workload import Request

COSTS = StepTime(0.010 + 0.001 * np.arange(2049), 0.0, 0.0, 0.0, 0.0)


def requests(*lengths: tuple[int, int], gap_s: float = 0.0) -> list[Request]:
    return [
        Request(str(number), prompt, output, scheduled_s=number * gap_s)
        for number, (prompt, output) in enumerate(lengths)
    ]


def settings(**changes: object) -> EngineSettings:
    return EngineSettings(**({"max_num_seqs": 3, "max_num_batched_tokens": 16, "block_size": 4,
                              "async_scheduling": False} | changes))  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 20)), min_size=1, max_size=8),
    st.booleans(), st.booleans(), st.integers(13, 30),
)  # fmt: skip
def test_every_token_is_written_once_and_every_step_keeps_its_limits(lengths, static, lag, blocks):
    asked = requests(*lengths, gap_s=0.02)
    chosen = settings(static_batching=static, async_scheduling=lag, kv_blocks=blocks)
    watched = watch(asked, chosen, COSTS)
    written = [number for step in watched.steps for number in step.written]
    assert [written.count(number) for number in range(len(asked))] == [r.max_tokens for r in asked]
    assert sum(step.prefill_tokens for step in watched.steps) >= sum(r.prompt_tokens for r in asked)
    for step, after in zip(watched.steps, watched.steps[1:], strict=False):
        assert step.end_s <= after.start_s + 1e-9
    for step in watched.steps:
        present = step.prefilled + step.decoded
        assert len(set(present)) == len(present) <= 3
        assert not set(present) & set(step.waiting)
        assert step.prefill_tokens + len(step.decoded) <= 16
        assert 0 < step.kv_blocks <= blocks


def test_a_static_batch_ends_together_and_a_continuous_one_fills_its_seats():
    asked = requests((2, 1), (2, 9), (2, 2), (2, 1))
    static = watch(asked, settings(static_batching=True), COSTS)
    assert [step.waiting for step in static.steps] == [(3,)] * 9 + [()]
    continuous = watch(asked, settings(), COSTS)
    assert continuous.steps[1].prefilled == (3,) and continuous.steps[1].decoded == (1, 2)
    assert continuous.seconds < static.seconds


def test_a_prompt_over_the_budget_comes_in_chunks():
    watched = watch(requests((40, 2)), settings(), COSTS)
    assert [step.prefill_tokens for step in watched.steps] == [16, 16, 8, 0]
    assert [step.written for step in watched.steps] == [(), (), (0,), (0,)]
    assert watched.seconds == pytest.approx(4 * 0.010 + 41 * 0.001)


def test_blocks_are_counted_as_they_are_taken_and_come_back():
    watched = watch(requests((6, 8)), settings(), COSTS)
    assert [step.kv_blocks for step in watched.steps] == [2, 2, 2, 3, 3, 3, 3, 4]
    assert [step.kv_tokens for step in watched.steps] == [6, 7, 8, 9, 10, 11, 12, 13]


def test_preemption_shows_as_a_pause():
    watched = watch(requests(*[(6, 8)] * 3), settings(kv_blocks=6, enable_prefix_caching=False), COSTS)
    assert watched.preemptions > 0
    gaps = watched.run.ok["max_gap_s"].astype(float)
    assert gaps.max() > 3 * gaps.min()
    assert watched.run.samples["preemptions"].max() == watched.preemptions
    assert watched.run.samples["kv_used_ratio"].max() == 1.0


def test_the_run_is_simulated_and_counts_from_the_schedule():
    watched = watch(
        requests((4, 2), (4, 2), gap_s=1.0), settings(), COSTS, request_s=0.5, model="m", card="c"
    )
    assert watched.run.stamp.kind is Kind.SIMULATED and watched.run.stamp.model == "m"
    ttft = (watched.run.ok["first_token_s"] - watched.run.ok["sent_s"]).tolist()
    assert ttft == pytest.approx([0.514, 0.514])


def test_what_cannot_be_served_is_told_with_the_way_out():
    with pytest.raises(KilocardError, match="4 blocks never fits into a KV cache of 2: shorten it"):
        watch(requests((6, 8)), settings(kv_blocks=2), COSTS)
    with pytest.raises(KilocardError, match="known up to 2048 tokens"):
        watch(requests((6, 8)), settings(max_num_batched_tokens=4096), COSTS)
    with pytest.raises(KilocardError, match="without requests"):
        watch([], settings(), COSTS)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request("a", -50, 5), "-50 prompt"),
        (Request("a", 5, 0), "0 output tokens"),
        (Request("a", 5, 5, scheduled_s=float("nan")), "arrives after nan s"),
        (Request("a", 5, 5, scheduled_s=-1.0), "arrives after -1.0 s"),
        (Request("a", 5, 5, scheduled_s=1e300), "arrives after 1e"),
        (Request("a", 80, 21), "101 tokens, over max_model_len 100"),
        (Request("a", 5, 5, priority="soon"), "the priority 'soon'"),
    ],
)
def test_a_request_that_no_engine_takes_is_one_line(request_, said):
    with pytest.raises(KilocardError, match=said):
        watch([request_], settings(max_model_len=100), COSTS)


def test_any_iterable_of_requests_will_do():
    assert len(watch(iter(requests((4, 2), (4, 2))), settings(), COSTS).run.ok) == 2


def test_who_has_the_lower_number_goes_first():
    asked = [Request("low", 8, 4, priority="1"), Request("high", 8, 4, priority="0")]
    for policy, order in (("fcfs", [0, 1]), ("priority", [1, 0])):
        first = watch(asked, settings(max_num_seqs=1, scheduling_policy=policy), COSTS)
        assert [step.written[0] for step in first.steps if step.written][::4] == order


def test_a_fixed_state_takes_its_blocks():
    asked = requests((4, 4), (4, 4))
    plain, hybrid = (watch(asked, settings(kv_blocks=8), COSTS, state_blocks=it) for it in (0, 4))
    assert max(len(step.decoded) for step in plain.steps) == 2
    assert max(len(step.decoded) for step in hybrid.steps) == 1
