"""A simulated case: its run, its result, and laws that hold whatever is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.engine_model.calibration import calibration_for
from kilocard.errors import KilocardError
from kilocard.fleet import simulate_case
from kilocard.fleet.simulate import simulate_traffic
from kilocard.fleet.traffic import draw_traffic
from kilocard.record import Run
from kilocard.routing.policies import least_active
from kilocard.specs import Case, case_from

WORKLOAD = {"rate_per_s": 20, "requests": 300, "prompt_tokens": 512, "output_tokens": 50}
METRICS = ("ttft_s", "itl_s", "tpot_s", "e2e_s")
KEYS = (
    "output_tokens_per_s", "requests", "goodput_per_s", "utilization", "preemptions", "prefix_hit_ratio",
)  # fmt: skip


def a_case(workload: dict[str, Any] | None = None, **changes: Any) -> Case:
    return case_from(
        {"model": "qwen3-8b", "card": "h100-sxm", "workload": WORKLOAD | (workload or {}), **changes}
    )


def closed(*widths: int, requests: int = 100, **changes: Any) -> Case:
    lengths = {"prompt_tokens": 256, "output_tokens": 40}
    stages = [{"concurrency": width, "requests": requests} for width in widths]
    return case_from(
        {**a_case().model_dump(exclude_none=True), "workload": {"stages": stages, **lengths}, **changes}
    )


def test_a_result_has_all_that_was_promised() -> None:
    _, result = simulate_case(a_case(slo={"ttft_s": 0.5, "tpot_s": 0.05}))
    for part in (result["run"], *result["stages"]):
        for metric in METRICS:
            assert {"mean", "p50", "p90", "p95", "p99"} <= set(part[metric])
        assert all(part[key] is not None for key in KEYS)
    assert result["wall_s"] > 0
    assert result["calibration"] == "h100-sxm"
    assert result["expected_error"]


def test_the_same_seed_gives_the_same_bytes_and_another_other_ones() -> None:
    runs = [simulate_case(a_case(seed=seed, replicas=3))[0].requests for seed in (1, 1, 2)]
    assert runs[0].to_csv() == runs[1].to_csv()
    assert runs[0].to_csv() != runs[2].to_csv()


def test_a_run_survives_its_file(tmp_path) -> None:
    run, _ = simulate_case(a_case())
    again = Run.read(run.write(tmp_path / "run.parquet"))
    assert again.requests.equals(run.requests)
    assert again.stamp.kind == "simulated"


def test_more_bandwidth_is_faster() -> None:
    calibration = calibration_for("h100-sxm", None)
    slow, fast = (
        simulate_case(a_case(card=card), calibration=calibration)[1]["run"]["e2e_s"]["mean"]
        for card in ("h100-sxm", "h200-sxm")
    )
    assert fast < slow


def test_a_larger_batch_has_more_throughput_and_slower_tokens() -> None:
    _, result = simulate_case(closed(1, 2, 4, 8, 16, 32))
    rates = [stage["output_tokens_per_s"] for stage in result["stages"]]
    pauses = [stage["tpot_s"]["p50"] for stage in result["stages"]]
    assert rates == sorted(rates) and pauses == sorted(pauses)


def test_levels_of_a_closed_loop_stand_one_after_the_other() -> None:
    run, result = simulate_case(closed(1, 4))
    first, second = (run.requests[run.requests["stage"] == stage] for stage in (0, 1))
    assert first["last_token_s"].max() <= second["sent_s"].min()
    assert run.requests["request_id"].tolist() == [str(number) for number in range(200)]
    assert run.requests["scheduled_s"].isna().all()
    assert [stage["stage"] for stage in result["stages"]] == [0, 1]
    assert run.stamp.workload["stages"]["1"]["concurrency"] == 4


def test_a_level_alone_is_the_level_in_a_sweep() -> None:
    _, alone = simulate_case(closed(8))
    _, swept = simulate_case(closed(8, 16))
    for metric in METRICS:
        assert alone["stages"][0][metric] == swept["stages"][0][metric]


def test_what_engines_count_adds_up_over_stages() -> None:
    stages = [{"rate_per_s": rate, "duration_s": 20} for rate in (2, 40)]
    case = a_case({"stages": stages, "rate_per_s": None, "requests": None}, replicas=2)
    _, result = simulate_case(case)
    idle, busy = (stage["utilization"] for stage in result["stages"])
    assert 0 < idle < busy <= 1
    assert idle < result["run"]["utilization"] < busy
    assert sum(stage["requests"] for stage in result["stages"]) == result["run"]["requests"]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([0.5, 5.0, 50.0, 500.0]), min_size=1, max_size=4),
    st.integers(1, 3), st.integers(1, 400), st.booleans(),
)  # fmt: skip
def test_no_stage_is_busier_than_it_lasts(rates: list[float], output: int, prompt: int, ahead: bool) -> None:
    stages = [{"rate_per_s": rate, "requests": 20} for rate in rates]
    load = {"stages": stages, "rate_per_s": None, "requests": None, "output_tokens": output}
    case = a_case(load | {"prompt_tokens": prompt}, engine={"async_scheduling": ahead})
    _, result = simulate_case(case)
    for stage in (result["run"], *result["stages"]):
        assert 0 < stage["utilization"] <= 1


def test_a_small_cache_preempts_and_answers_all_the_same() -> None:
    tight = {"kv_blocks": 200, "max_num_seqs": 64}
    run, result = simulate_case(a_case({"output_tokens": 300}, engine=tight))
    assert result["run"]["preemptions"] == sum(stage["preemptions"] for stage in result["stages"]) > 0
    assert (run.requests["output_tokens"] == 300).all() and run.requests["last_token_s"].notna().all()


def test_priorities_wait_less() -> None:
    crowded = {"rate_per_s": 200, "requests": 600, "priority": {0: 1, 1: 1}}
    run, _ = simulate_case(a_case(crowded, engine={"scheduling_policy": "priority", "max_num_seqs": 8}))
    waits = run.requests.groupby("priority")["queue_s"].mean()
    assert waits["0"] < 0.5 * waits["1"]


def test_static_batching_is_slower() -> None:
    lengths = {"kind": "lognormal", "mean_tokens": 100, "cv": 1.0, "most_tokens": 500}
    load = {"rate_per_s": 50, "output_tokens": lengths}
    continuous, static = (
        simulate_case(a_case(load, engine={"static_batching": waves, "max_num_seqs": 16}))[1]["run"]
        for waves in (False, True)
    )
    assert static["e2e_s"]["p50"] > 1.5 * continuous["e2e_s"]["p50"]


def test_progress_is_told_up_to_the_end() -> None:
    told: list[tuple[int, int]] = []
    simulate_case(closed(1, 4), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (200, 200)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_an_interrupt_ends_a_simulation_between_two_slices() -> None:
    case = a_case({"requests": 100_000})
    traffic = draw_traffic(case.workload, 0)

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_traffic(case, traffic, calibration_for("h100-sxm", None), progress=stop)


def to_nobody(replicas, arrival, random):
    return -1 if arrival.prompt_tokens > 0 else 7


def by_mood(replicas, arrival, random):
    return replicas.mood[0]


def test_a_policy_that_names_nobody_is_told() -> None:
    with pytest.raises(KilocardError, match="300 of 300 requests have no answer"):
        simulate_case(a_case(), to_nobody)


def test_an_answer_beyond_the_end_of_time_is_told() -> None:
    turns = {"count": 4, "think_s": 2_000_000}
    with pytest.raises(
        KilocardError, match="1 of 4 requests have no answer: it would come after more than 53"
    ):
        simulate_case(a_case({"requests": 1, "turns": turns}))


def test_a_policy_that_cannot_be_compiled_is_told_in_one_line() -> None:
    with pytest.raises(KilocardError, match="by_mood cannot be compiled") as refusal:
        simulate_case(a_case(), by_mood)
    assert "\n" not in str(refusal.value)


def test_a_policy_of_ones_own_is_asked() -> None:
    def always_last(replicas, arrival, random):
        return len(replicas.active) - 1

    run, _ = simulate_case(a_case(replicas=3), always_last)
    assert set(run.requests["replica"]) == {"2"}
    named, _ = simulate_case(a_case(replicas=3))
    given, _ = simulate_case(a_case(replicas=3), least_active)
    assert named.requests.equals(given.requests)


def test_a_block_larger_than_the_cache_is_told() -> None:
    with pytest.raises(KilocardError, match="block_size 1000000 tokens is larger than the whole KV cache"):
        simulate_case(a_case(engine={"block_size": 1_000_000}))


def test_priorities_that_nobody_looks_at_are_told() -> None:
    case = a_case({"priority": {0: 1, 1: 1}})
    with pytest.raises(KilocardError, match="priority is of no account to scheduling_policy fcfs"):
        simulate_case(case)
    simulate_case(case, least_active)


def test_the_entries_of_a_long_prompt_fit_into_one_plan() -> None:
    case = a_case(
        {"requests": 40, "turns": 5, "prompt_tokens": 2000, "system_prompts": {"count": 40, "tokens": 64}},
        engine={"max_num_batched_tokens": 65_536, "block_size": 1, "kv_blocks": 400_000},
    )
    run, _ = simulate_case(case)
    assert np.isfinite(run.requests["last_token_s"].to_numpy(float)).all()


def layout(tp: int, pp: int, **more: Any) -> dict[str, Any]:
    workload = {"stages": [{"concurrency": 32, "requests": 128}], "prompt_tokens": 512, "output_tokens": 64}
    engine = {"tensor_parallel_size": tp, "pipeline_parallel_size": pp}
    raw = {"model": "llama-3.1-70b", "card": "h100-sxm", "weights": "fp8", "engine": engine}
    return simulate_case(case_from({**raw, "workload": workload, **more}))[1]["run"]


def test_a_pipeline_serves_many_and_speeds_up_nobody() -> None:
    two, four = layout(1, 2), layout(1, 4)
    assert four["tpot_s"]["p50"] > 0.5 * two["tpot_s"]["p50"]
    assert four["output_tokens_per_s"] > two["output_tokens_per_s"]
    assert layout(4, 1)["tpot_s"]["p50"] < four["tpot_s"]["p50"]


def test_a_group_over_ethernet_is_slower_than_in_a_machine() -> None:
    near = layout(4, 1)
    far = layout(4, 1, interconnect={"cards_per_node": 1, "network": "ethernet-100g"})
    assert far["tpot_s"]["p50"] > 2 * near["tpot_s"]["p50"]


def test_the_stamp_names_the_whole_layout() -> None:
    case = case_from(
        {
            "model": "llama-3.1-70b",
            "card": "h100-sxm",
            "weights": "fp8",
            "replicas": 3,
            "engine": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2, "data_parallel_size": 2},
            "workload": {"requests": 20, "rate_per_s": 10, "prompt_tokens": 50, "output_tokens": 5},
        }
    )
    assert simulate_case(case)[0].stamp.layout == "TP 2 x PP 2 x DP 2 x 3 replicas"


@pytest.mark.parametrize(
    ("interconnect", "said"),
    [
        ({"network": "string"}, "string"),
        ({"cards_per_node": 0}, "cards_per_node"),
        ({"wire": "nvlink4"}, "unknown key 'wire'"),
    ],
)
def test_an_interconnect_that_is_none_is_refused(interconnect: dict[str, Any], said: str) -> None:
    with pytest.raises(KilocardError, match=said):
        layout(2, 1, interconnect=interconnect)
