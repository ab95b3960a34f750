"""A case: what it refuses in one line, and how a file and changes to it come together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from kilocard.errors import KilocardError
from kilocard.specs import SLO, Case, Demand, EngineSettings, EngineSpec, case_from, read_case
from kilocard.specs.case import MOST_KV_BLOCKS, MOST_REPLICAS
from kilocard.specs.demand import MOST_REQUESTS, Distribution, Stage, SystemPrompts, Turns

WORKLOAD = {"rate_per_s": 5, "requests": 60, "prompt_tokens": 64, "output_tokens": 8}
CASE = {"model": "qwen3-8b", "card": "h100-sxm", "workload": WORKLOAD}
HUGE = 99_999_999_999_999_999_999
LENGTHS = {"prompt_tokens": 64, "output_tokens": 8}
A_STAGE = {"rate_per_s": 5, "duration_s": 10}
FIXED = {"kind": "fixed", "tokens": 100, "mean_tokens": 7, "cv": 2}
IN_A_LOOP = {"stages": [{"concurrency": 2, "requests": 4}], **LENGTHS}


def a_case(changes: dict[str, Any], **demand: Any) -> Case:
    return case_from({**CASE, **changes, "workload": {**WORKLOAD, **demand}})


def asked(workload: dict[str, Any]) -> Case:
    return case_from({**CASE, "workload": workload})


def write(folder: Path, content: dict[str, Any] | str) -> Path:
    path = folder / "case.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "demand", "said"),
    [
        ({}, {"prompt_tokens": FIXED}, "workload.prompt_tokens: a fixed distribution has no cv, mean_tokens"),
        ({}, {"cv": 3}, "poisson arrivals have no cv of 3: make them gamma"),
        ({}, {"turns": {"count": 1, "think_s": 5}}, "no think_s"),
        ({}, {"priority": {1: 1e308, 2: 1e308}}, "workload.priority.1: Input should be less than"),
        ({}, {"priority": {1: True}}, "true and false are no numbers"),
        ({}, {"distinct_prompts": HUGE}, f"less than or equal to {MOST_REQUESTS}"),
        ({}, {"system_prompts": {"tokens": 2, "count": HUGE}}, "workload.system_prompts.count: "),
        ({}, {"system_prompts": {"tokens": 2, "users_each": HUGE}}, "workload.system_prompts.users_each: "),
        ({}, {"turns": HUGE}, "workload.turns: "),
        ({}, {"concurrency": 4}, "stages: [{concurrency: 4, requests: 100}]"),
        ({}, {"duration_s": 4}, "stages: [{rate_per_s: 5, duration_s: 60}]"),
        ({}, {"rate": 4}, "did you mean 'rate_per_s'?"),
        ({}, {"output_token": 4}, "did you mean 'output_tokens'?"),
        ({"polcy": "random"}, {}, "unknown key 'polcy': did you mean 'policy'?"),
        ({"engine": {"max_seqs": 3}}, {}, "engine: unknown key 'max_seqs': did you mean 'max_num_seqs'?"),
        ({"engine": {"kv_blocks": HUGE}}, {}, f"less than or equal to {MOST_KV_BLOCKS}"),
        ({"engine": {"block_size": HUGE}}, {}, "engine.block_size: "),
        ({"engine": {"max_model_len": HUGE}}, {}, "engine.max_model_len: "),
        ({"engine": {"gpu_memory_utilization": True}}, {}, "true and false are no numbers"),
        ({"engine": {"data_parallel_size": 1_000_000_000}}, {}, f"less than or equal to {MOST_REPLICAS}"),
        ({"replicas": 1000, "engine": {"data_parallel_size": 1000}}, {}, "1,000,000 engines: at most"),
        ({"slo": {"ttft": float("inf")}}, {}, "slo.ttft: Input should be a finite number"),
        ({"slo": {"ttft": 1, "ttft_s": 2, "ttft_p99_s": 3}}, {}, "ttft_p99_s, ttft_s, ttft are one limit"),
        ({"slo": {"tffs": 1}}, {}, "unknown key 'tffs': did you mean 'ttft"),
        ({"card": {"id": "x", "name": "y"}}, {}, "card.memory_gb, card.memory_bandwidth_gb_per_s"),
        ({"card": {}}, {}, "card.id, card.name"),
        ({"card": 7}, {}, "card: Input should be a valid string"),
    ],
)  # fmt: skip
def test_what_has_no_effect_or_no_sense_is_refused(
    changes: dict[str, Any], demand: dict[str, Any], said: str
) -> None:
    with pytest.raises(KilocardError) as refusal:
        a_case(changes, **demand)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 500


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"stages": [{"rate_per_s": 5, "duration_s": 1e300}], **LENGTHS}, "workload.stages.0.duration_s"),
        ({"stages": [{"concurrency": HUGE, "requests": 5}], **LENGTHS}, "workload.stages.0.concurrency"),
        ({**IN_A_LOOP, "arrivals": "constant"}, "nothing arrives by itself"),
    ],
)
def test_stages_are_bounded(workload: dict[str, Any], said: str) -> None:
    with pytest.raises(KilocardError) as refusal:
        asked(workload)
    assert said in str(refusal.value)


def test_a_row_of_a_card_is_held_to_its_fields() -> None:
    source = {"citation": "a datasheet", "date": "2024", "kind": "published"}
    numbers = dict.fromkeys(("memory_gb", "memory_bandwidth_gb_per_s", "bf16_tflops"), 100)
    row = {"id": "x", "name": "X", "fp8_tflops": 0, "int8_tops": 0, "link": "pcie", "source": source}
    assert str(a_case({"card": {**row, **numbers}}).card) == "x"
    with pytest.raises(KilocardError, match=r"card\.memory_gbs: unknown key: did you mean 'memory_gb'"):
        a_case({"card": {**row, **numbers, "memory_gbs": 5}})
    with pytest.raises(KilocardError, match=r"card\.source\.dates: unknown key: did you mean 'date'"):
        a_case({"card": {**row, **numbers, "source": {**source, "dates": "2024"}}})


SIZES = ("tensor_parallel_size", "max_num_seqs", "max_model_len", "block_size", "gpu_memory_utilization")
OF_DEMAND = ("requests", "rate_per_s", "cv", "prompt_tokens", "output_tokens", "distinct_prompts", "turns")
NUMBERS: dict[type[BaseModel], tuple[dict[str, Any], Iterable[str]]] = {
    EngineSettings: ({}, (*SIZES, "max_num_batched_tokens", "data_parallel_size", "kv_blocks")),
    EngineSpec: ({}, (*SIZES, "seed")),
    Demand: (WORKLOAD, OF_DEMAND),
    Stage: (A_STAGE, Stage.model_fields),
    Distribution: ({"kind": "fixed", "tokens": 5}, sorted(set(Distribution.model_fields) - {"kind"})),
    SystemPrompts: ({"tokens": 5}, SystemPrompts.model_fields),
    Turns: ({"count": 5}, Turns.model_fields),
    SLO: ({}, SLO.model_fields),
    Case: (CASE, ("replicas", "seed")),
}
PLACES = [(kind, others, name) for kind, (others, names) in NUMBERS.items() for name in names]


@given(st.sampled_from(PLACES), st.booleans())
def test_a_truth_is_no_number(place: tuple[type[BaseModel], dict[str, Any], str], truth: bool) -> None:
    kind, others, name = place
    with pytest.raises(ValueError, match=name):
        kind.model_validate({**others, name: truth})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model: a\ncard: b\nmodel: c\n", "'model' is there twice in line 3"),
        ("engine: {max_num_seqs: 1, max_num_seqs: 2}\n", "'max_num_seqs' is there twice in line 1"),
        ("model: a\n? [1, 2]\n: 3\n", "a key is no text but a list or a mapping in line 2"),
        ("model: !!bool maybe\n", "is no value of its tag"),
        ("model: !!map a\n", "expected a mapping node"),
        ("model: !!float a\n", "could not convert"),
    ],
)
def test_yaml_that_says_nothing_clear_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(KilocardError) as refusal:
        read_case(write(tmp_path, text))
    assert said in str(refusal.value) and "case.yaml" in str(refusal.value)


def test_a_case_that_was_read_is_read_again() -> None:
    case = a_case(
        {"slo": {"ttft": 1}, "replicas": 3}, arrivals="gamma", cv=2, turns={"count": 3, "think_s": 1}
    )
    assert case_from(case.model_dump()) == case
    assert case_from(case.model_dump(exclude_none=True)) == case


def test_a_trace_is_looked_for_beside_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    path = write(tmp_path, {**CASE, "workload": {"trace": "day.csv"}})
    assert read_case(path).workload.trace == str(tmp_path / "day.csv")
    given_trace = {"workload": {"trace": "other.csv"}}
    assert read_case(path, given_trace).workload.trace == "other.csv"
    absolute = write(tmp_path, {**CASE, "workload": {"trace": "/data/day.csv"}})
    assert read_case(absolute).workload.trace == "/data/day.csv"


STAGES = [{"rate_per_s": 1, "requests": 9}]


@pytest.mark.parametrize(
    ("said", "changes", "stages"),
    [
        (WORKLOAD, {"stages": [{"concurrency": 4}]}, ((None, 4, 60),)),
        (WORKLOAD, {"stages": [{"concurrency": 4, "requests": 7}]}, ((None, 4, 7),)),
        (WORKLOAD, {"stages": [{"rate_per_s": 5}, {"rate_per_s": 6}]}, ((5, None, 60), (6, None, 60))),
        (WORKLOAD, {"rate_per_s": 7}, ((7, None, 60),)),
        (WORKLOAD, {"requests": 7}, ((5, None, 7),)),
        ({"stages": STAGES, **LENGTHS}, {"stages": [{"concurrency": 4, "requests": 7}]}, ((None, 4, 7),)),
        ({"stages": STAGES, **LENGTHS}, {"rate_per_s": 5, "requests": 7}, ((5, None, 7),)),
    ],
)
def test_a_load_that_is_given_stands_in_for_the_files(
    tmp_path: Path, said: dict[str, Any], changes: dict[str, Any], stages: tuple[Any, ...]
) -> None:
    case = read_case(write(tmp_path, {**CASE, "workload": said}), {"workload": changes})
    found = [(stage.rate_per_s, stage.concurrency, stage.requests) for stage in case.workload.all_stages]
    assert tuple(found) == stages
