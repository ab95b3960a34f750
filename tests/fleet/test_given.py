"""Numbers beside a case: every statistic that is fitted, every unknown name, and what cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.fleet import simulate_case
from kilocard.fleet.given import observation_of_case
from kilocard.fleet.observation import STATISTICS, WHOLE_RUN
from kilocard.fleet.plausible import require_plausible
from kilocard.record.plain import to_json
from kilocard.specs import Case, case_from


def a_case() -> Case:
    stages = [{"concurrency": 1, "requests": 20}, {"concurrency": 2, "requests": 20}]
    asked = {"prompt_tokens": 300, "output_tokens": 10, "stages": stages}
    return case_from({"model": "qwen3-8b", "card": "h100-sxm", "workload": asked})


def read(folder: Path, content: str) -> dict[tuple[int, str, str], float]:
    path = folder / "measured.yaml"
    path.write_text(content)
    values = observation_of_case(a_case(), str(path)).values
    return {(value.stage, value.metric, value.statistic): value.measured for value in values}


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_file_may_tell_any_statistic(tmp_path: Path, statistic: str) -> None:
    found = read(tmp_path, f"ttft_s: {{{statistic}: 0.05}}")
    assert found == {(WHOLE_RUN, "ttft_s", statistic): 0.05}
    inline = observation_of_case(a_case(), f"ttft_s.{statistic}=0.05").values
    assert [value.statistic for value in inline] == [statistic]


def test_a_file_in_the_form_that_the_hint_shows_is_read_whole(tmp_path: Path) -> None:
    assert len(read(tmp_path, "ttft_s: {mean: 0.05, p90: 0.06}")) == 2


def test_a_result_of_simulate_is_read_as_it_is(tmp_path: Path) -> None:
    _, result = simulate_case(a_case())
    found = read(tmp_path, to_json(result))
    assert {stage for stage, _, _ in found} == {0, 1}
    assert found[1, "e2e_s", "p50"] == result["stages"][1]["e2e_s"]["p50"]
    assert (0, "ttft_s", "p99") not in found
    whole = read(tmp_path, json.dumps({"run": json.loads(to_json(result["run"]))}))
    assert {stage for stage, _, _ in whole} == {WHOLE_RUN}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("ttft: 0.05", "unknown key 'ttft'.*'ttft_s'"),
        ("{ttft_s: 0.05, speed: 3}", "unknown key 'speed'"),
        ("stages: [{ttft: 0.05}]", "unknown key 'ttft'"),
        ("{stages: [{ttft_s: 0.05}], e2e_s: 1}", "unknown key 'e2e_s'"),
        ("ttft_s: {p95: 0.05}", "unknown statistic ttft_s.p95"),
        ("ttft_s: {mean: 0.05, p91: 0.06}", "unknown statistic ttft_s.p91"),
        ('{"stages":[{"stage":null,"ttft_s":0.02}]}', "stage is None"),
        ('{"stages":[{"stage":"x","ttft_s":0.02}]}', "stage is 'x'"),
        ('{"stages":[{"stage":-1,"ttft_s":0.02}]}', "stage is -1"),
        ('{"stages":[{"stage":true,"ttft_s":0.02}]}', "stage is True"),
        ('{"stages":[7]}', "no keys and numbers"),
        ('{"stages":{"0": {"ttft_s":0.02}}}', "give a list"),
        ('{"run":7}', "no keys and numbers"),
        ("stages: [{stage: 0, ttft_s: 0.02}, {stage: 0, ttft_s: 0.03}]", "given twice"),
        ("ttft_s: 0.02\nttft_s: 0.03", "there twice"),
        ('{"ttft_s": 0.02, "ttft_s": 0.03}', "there twice"),
        ("ttft_s: [1]", "no number"),
        ("ttft_s: true", "no number"),
        ("ttft_s: {mean: null}", "holds nothing"),
        ("{" * 100_000, "cannot read"),
    ],
)
def test_what_a_file_cannot_mean_is_named(tmp_path: Path, content: str, told: str) -> None:
    with pytest.raises(KilocardError, match=told) as raised:
        read(tmp_path, content)
    assert "\n" not in str(raised.value)


def test_a_file_without_end_is_left() -> None:
    with pytest.raises(KilocardError, match="longer than"):
        observation_of_case(a_case(), "/dev/zero")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ttft_s=1e300", "no engine shows"),
        ("ttft_s=1e-300", "no engine shows"),
        ("output_tokens_per_s=1e12", "no engine shows"),
        ("output_tokens_per_s.p90=5", "without a p90"),
        ("ttft_s=0.02,ttft_s=0.5", "given twice"),
        ("ttft_s=0.02,ttft_s.mean=0.5", "given twice"),
        ("e2e_s=0.001,ttft_s=5", "ttft_s mean is 5, above e2e_s mean 0.001"),
        ("ttft_s.p50=2,ttft_s.p99=1", "above ttft_s p99"),
    ],
)
def test_what_no_engine_shows_is_refused(text: str, told: str) -> None:
    with pytest.raises(KilocardError, match=told):
        observation_of_case(a_case(), text)


@given(ttft_s=st.floats(1e-6, 1e6), e2e_s=st.floats(1e-6, 1e6), statistic=st.sampled_from(sorted(STATISTICS)))
def test_a_first_token_comes_no_later_than_the_last(ttft_s: float, e2e_s: float, statistic: str) -> None:
    one = observation_of_case(a_case(), "ttft_s=1").values[0]
    values = (
        replace(one, statistic=statistic, measured=ttft_s),
        replace(one, metric="e2e_s", statistic=statistic, measured=e2e_s),
    )
    if ttft_s <= e2e_s:
        assert require_plausible(values) == values
    else:
        with pytest.raises(KilocardError, match="cannot be"):
            require_plausible(values)
