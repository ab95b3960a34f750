"""A run as an observation: what its stamp says counts, and what disqualifies it is one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.engine_model.coefficients import Coefficients
from kilocard.errors import KilocardError
from kilocard.fleet import simulate_case
from kilocard.fleet.calibrating import (
    FARTHEST,
    no_less_than_seen,
    require_near,
    require_predictable,
)
from kilocard.fleet.given import observation_of_case
from kilocard.fleet.measured import case_of_run, observation_of_run, require_usable
from kilocard.fleet.observation import Value
from kilocard.record import Kind, Run
from kilocard.specs import case_from

LOOP = {"stages": [{"concurrency": 1, "requests": 20}, {"concurrency": 4, "requests": 20}]}


@cache
def simulated(engine: tuple[tuple[str, Any], ...] = (), replicas: int = 1) -> Run:
    workload = {"prompt_tokens": 300, "output_tokens": 10, **LOOP}
    case = {"model": "qwen3-8b", "card": "h100-sxm", "workload": workload}
    return simulate_case(case_from({**case, "engine": dict(engine), "replicas": replicas}))[0]


def stamped(**changes: Any) -> Run:
    run = simulated()
    return replace(run, stamp=replace(run.stamp, **changes))


def failing(share: float) -> Run:
    run = simulated()
    table = run.requests.copy()
    table.loc[: round(share * len(table)) - 1, "status"] = "error"
    return replace(run, requests=table)


def test_a_sound_run_has_no_notes() -> None:
    assert require_usable(simulated(), "h100-sxm") == []


def test_a_run_that_is_not_valid_is_refused_with_its_reason() -> None:
    with pytest.raises(KilocardError, match="the client was late"):
        require_usable(stamped(valid=False, invalid_reason="the client was late"), "h100-sxm")


@pytest.mark.parametrize("told", ["l4", "L4", "NVIDIA L4 24 GB"])
def test_a_known_card_in_the_stamp_is_the_card(told: str) -> None:
    with pytest.raises(KilocardError, match="ran on l4, not on h100-sxm"):
        require_usable(stamped(card=told), "h100-sxm")


def test_a_card_that_no_catalogue_knows_may_be_any() -> None:
    assert require_usable(stamped(card="AMD EPYC"), "h100-sxm") == []


@given(failed=st.integers(0, 40))
def test_more_than_a_tenth_of_failures_is_too_many(failed: int) -> None:
    run = failing(failed / 40)
    if failed > 4:
        with pytest.raises(KilocardError, match=f"{failed} of 40 requests"):
            require_usable(run, "h100-sxm")
    else:
        assert len(require_usable(run, "h100-sxm")) == bool(failed)


def test_failures_of_levels_that_are_left_out_do_not_count() -> None:
    assert require_usable(failing(0.4), "h100-sxm", stages=[1]) == []


def test_one_request_is_no_level() -> None:
    run = simulated()
    with pytest.raises(KilocardError, match="too few"):
        observation_of_run(replace(run, requests=run.requests.iloc[:1]), "h100-sxm")


def test_times_that_no_engine_shows_are_refused() -> None:
    run = simulated()
    table = run.requests.copy()
    table[["sent_s", "first_token_s", "last_token_s"]] *= 1e15
    with pytest.raises(KilocardError, match="no engine shows"):
        observation_of_run(replace(run, requests=table), "h100-sxm")


def test_the_case_of_a_simulated_run_is_the_one_that_was_simulated() -> None:
    engine = {"tensor_parallel_size": 2, "kv_blocks": 9000, "enable_prefix_caching": False}
    case = case_of_run(simulated(tuple(engine.items()), replicas=3), "h100-sxm")
    assert case.engine.model_dump(exclude_defaults=True) == engine
    assert case.replicas == 3
    assert [stage.concurrency for stage in case.workload.all_stages] == [1, 4]


def test_the_layout_of_a_stamp_is_the_case_s() -> None:
    engine = case_of_run(stamped(layout="TP 2 x DP 4", settings={}), "h100-sxm").engine
    assert (engine.tensor_parallel_size, engine.data_parallel_size) == (2, 4)


def test_an_open_loop_s_arrivals_are_the_case_s() -> None:
    workload = {
        **{
            "prompt_tokens": 300,
            "output_tokens": 10,
            "stages": {str(n): {"rate_per_s": 2.0} for n in (0, 1)},
        },
        "arrivals": {"rate_per_s": 2.0, "process": "gamma", "cv": 3.0},
    }
    demand = case_of_run(stamped(workload=workload), "h100-sxm").workload
    assert (demand.arrivals, demand.cv) == ("gamma", 3.0)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"kv_cache_memory_bytes": "lots"}, "kv_cache_memory_bytes is 'lots'"),
        ({"kv_cache_memory_bytes": -5}, "kv_cache_memory_bytes"),
        ({"kv_cache_memory_bytes": 10**9, "block_size": "16"}, "block_size is '16'"),
        ({"max_num_seqs": "many"}, "max_num_seqs"),
        ({"quantization": "fp8"}, "quantization='fp8'"),
        ({"kv_cache_dtype": "fp8"}, "kv_cache_dtype='fp8'"),
    ],
)
def test_a_setting_that_makes_no_case_is_named(settings: Mapping[str, Any], told: str) -> None:
    with pytest.raises(KilocardError, match=told):
        case_of_run(stamped(settings=settings), "h100-sxm")


@pytest.mark.parametrize("layout", ["EP 2 x TP 1", "rack"])
def test_a_layout_that_makes_no_case_is_named(layout: str) -> None:
    with pytest.raises(KilocardError, match="layout"):
        case_of_run(stamped(layout=layout), "h100-sxm")


def test_prompts_that_share_parts_make_no_case() -> None:
    workload = {**simulated().stamp.workload, "shared_prefix": {"tokens": 64}}
    with pytest.raises(KilocardError, match="shared_prefix"):
        case_of_run(stamped(workload=workload), "h100-sxm")


def test_an_emulated_run_is_as_usable_as_any() -> None:
    assert require_usable(stamped(kind=Kind.EMULATED), "h100-sxm") == []


@given(
    missed=st.lists(st.floats(-0.9, 5), min_size=1, max_size=9),
    shown=st.fixed_dictionaries({"ttft_s": st.floats(0, 0.2), "e2e_s": st.floats(0, 0.2)}),
)
def test_no_error_is_promised_below_the_one_seen(missed: list[float], shown: dict[str, float]) -> None:
    values = [Value(0, ("ttft_s", "tpot_s")[number % 2], "mean", 1.0) for number in range(len(missed))]
    promised = no_less_than_seen(shown, values, np.array(missed))
    assert promised["ttft_s"] >= max(shown["ttft_s"], np.median(np.abs(missed[::2])))
    assert promised["e2e_s"] >= max(shown["e2e_s"], np.median(np.abs(missed)))
    assert no_less_than_seen(shown, [], np.array([])) == shown


@given(st.lists(st.floats(-0.99, 9), min_size=2, max_size=2))
def test_a_fit_that_is_far_off_is_refused(missed: list[float]) -> None:
    observation = observation_of_case(simulated_case(), "ttft_s=0.05,e2e_s=0.5")
    if np.median(np.abs(missed)) > FARTHEST:
        with pytest.raises(KilocardError, match="does not fit"):
            require_near(observation, np.array(missed))
    else:
        require_near(observation, np.array(missed))


def test_a_fit_that_is_no_number_is_refused() -> None:
    observation = observation_of_case(simulated_case(), "ttft_s=0.05,e2e_s=0.5")
    with pytest.raises(KilocardError, match="does not fit"):
        require_near(observation, np.array([np.nan, 0.1]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["tpot_s mean", "tpot_s p50"])
def test_what_a_case_never_shows_is_no_measurement_of_it(name: str) -> None:
    with pytest.raises(KilocardError, match=f"gives no whole run, {name}"):
        given = observation_of_case(simulated_case(1), f"{name.replace(' ', '.')}=0.05")
        require_predictable(given, Coefficients())


def simulated_case(output_tokens: int = 10) -> Any:
    workload = {"prompt_tokens": 300, "output_tokens": output_tokens, **LOOP}
    return case_from({"model": "qwen3-8b", "card": "h100-sxm", "workload": workload})


def test_a_run_whose_prompts_were_asked_before_is_refused() -> None:
    run = simulated()
    table = run.requests.copy()
    table["cached_tokens"] = 288
    with pytest.raises(KilocardError, match="another --seed"):
        require_usable(replace(run, requests=table), "h100-sxm")
