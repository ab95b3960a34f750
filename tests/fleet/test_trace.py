"""Traces: their forms, what their prompts share, and what is none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kilocard.errors import KilocardError
from kilocard.fleet import simulate_case
from kilocard.fleet.trace import read_trace
from kilocard.fleet.traffic import draw_traffic
from kilocard.specs import Demand, case_from

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:49.0000000,20,0
"""
MOONCAKE = [
    {"timestamp": 500, "input_length": 1100, "output_length": 5, "hash_ids": [7, 8, 9]},
    {"timestamp": 1500, "input_length": 1536, "output_length": 6, "hash_ids": [7, 8, -3]},
    {"timestamp": 9500, "input_length": 1100, "output_length": 5, "hash_ids": [7, 8, 9]},
]


def a_row(**changed: object) -> str:
    return json.dumps({"timestamp": 1, "input_length": 5, "output_length": 5, **changed}) + "\n"


def write(place: Path, text: str) -> str:
    place.write_text(text, encoding="utf-8")
    return str(place)


def mooncake(folder: Path) -> str:
    return write(folder / "trace.jsonl", "\n".join(json.dumps(row) for row in MOONCAKE) + "\n\n")


def test_the_azure_form(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "azure.csv", AZURE))
    assert trace.arrival_s == pytest.approx([0, 4.314579, 2.31941])
    assert trace.prompt_tokens.tolist() == [374, 396, 20]
    assert trace.output_tokens.tolist() == [44, 109, 1], "an empty answer took a step"


def test_the_mooncake_form(tmp_path: Path) -> None:
    traffic = draw_traffic(Demand(trace=mooncake(tmp_path)), 0)
    assert traffic.arrival_s.tolist() == [0, 1, 9]
    assert traffic.paths.lengths.tolist() == [3, 3, 3]
    assert traffic.paths.end_tokens.tolist() == [512, 1024, 1099, 512, 1024, 1535, 512, 1024, 1099]
    streams = traffic.paths.streams.reshape(3, 3)
    assert (streams[0] == streams[2]).all()
    assert (streams[0, :2] == streams[1, :2]).all() and streams[0, 2] != streams[1, 2]
    assert (streams >= 0).all()


def test_blocks_of_equal_ids_are_found_in_the_cache(tmp_path: Path) -> None:
    run, result = simulate_case(
        case_from({"model": "qwen3-8b", "card": "h100-sxm", "workload": {"trace": mooncake(tmp_path)}})
    )
    assert run.requests["cached_tokens"].tolist() == [0, 1024, 1088]
    assert result["run"]["prefix_hit_ratio"] == pytest.approx((1024 + 1088) / (1100 + 1536 + 1100))


def test_a_run_is_a_trace_of_itself(tmp_path: Path) -> None:
    lengths = {"kind": "lognormal", "mean_tokens": 80, "cv": 1.0, "most_tokens": 300}
    asked = {"rate_per_s": 5, "requests": 40, "prompt_tokens": lengths, "output_tokens": lengths}
    case = {"model": "qwen3-8b", "card": "h100-sxm"}
    run, _ = simulate_case(case_from({**case, "workload": asked}))
    path = run.write(tmp_path / "run.parquet")
    again, _ = simulate_case(case_from({**case, "workload": {"trace": str(path)}}))
    for name in ("prompt_tokens", "output_tokens"):
        assert again.requests[name].tolist() == run.requests[name].tolist()
    spans = [np.diff(one.requests["sent_s"].to_numpy(float)) for one in (run, again)]
    assert spans[0] == pytest.approx(spans[1], abs=1e-9)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", AZURE),
        ("empty.csv", ""),
        ("headless.csv", "1,2,3\n"),
        ("no_rows.csv", AZURE.splitlines()[0] + "\n"),
        ("no_time.csv", AZURE + ",5,5\n"),
        ("bad_time.csv", AZURE + "yesterday,5,5\n"),
        ("negative.csv", AZURE + "2023-11-16 18:15:46,-5,5\n"),
        ("huge.csv", AZURE + "2023-11-16 18:15:46,1e30,5\n"),
        ("missing.csv", AZURE + "2023-11-16 18:15:46,,5\n"),
        ("empty.jsonl", "\n"),
        ("no_json.jsonl", "{"),
        ("list.jsonl", "[1, 2]\n"),
        ("no_length.jsonl", '{"timestamp": 1}\n'),
        ("bad_id.jsonl", '{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": ["a"]}\n'),
        ("endless.jsonl", '{"timestamp": 1e999, "input_length": 5, "output_length": 5}\n'),
        ("large_id.jsonl", '{"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [1e99]}\n'),
        ("deep.jsonl", "[" * 100_000),
        ("list_id.jsonl", a_row(hash_ids=[[1], [2]])),
        ("lone_id.jsonl", a_row(hash_ids=7)),
        ("no_ids.jsonl", a_row(hash_ids=None)),
        ("half_ids.jsonl", a_row(hash_ids=[1.5, 2.7])),
        ("true_id.jsonl", a_row(hash_ids=[True])),
        ("too_large_id.jsonl", a_row(hash_ids=[2**63])),
        ("many_ids.jsonl", a_row(hash_ids=[1, 2])),
        ("true_length.jsonl", a_row(input_length=True)),
        ("text_time.jsonl", a_row(timestamp="noon")),
        ("number.csv", AZURE.splitlines()[0] + "\n-5,5,5\n"),
        ("numbers.csv", AZURE.splitlines()[0] + "\n0.5,5,5\n1.5,5,5\n"),
        ("no.parquet", "PAR1"),
    ],
)
def test_what_is_no_trace_is_one_line(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(KilocardError) as refusal:
        read_trace(write(tmp_path / name, text))
    assert "\n" not in str(refusal.value)
    assert name in str(refusal.value)


def test_the_line_of_a_bad_row_is_told(tmp_path: Path) -> None:
    text = a_row() + "\n" + a_row(hash_ids=7)
    with pytest.raises(KilocardError, match="hash_ids in line 3 are 7, no list of whole numbers"):
        read_trace(write(tmp_path / "a.jsonl", text))


def test_a_time_beyond_all_is_told_in_few_digits(tmp_path: Path) -> None:
    trace = write(tmp_path / "a.jsonl", a_row() + a_row(timestamp=1e300))
    case = case_from({"model": "qwen3-8b", "card": "h100-sxm", "workload": {"trace": trace}})
    with pytest.raises(KilocardError, match=r"after 1e\+297 s"):
        simulate_case(case)


def test_a_trace_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(KilocardError, match=r"No such file"):
        read_trace(str(tmp_path / "none.csv"))
