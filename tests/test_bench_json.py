"""A run in vLLM's form says the same as the run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kilocard.bench_json import to_vllm_bench_json, write_vllm_bench_json
from kilocard.errors import KilocardError
from kilocard.record import Kind, Run, Stamp
from kilocard.specs import SLO


def run(stages: int = 1) -> Run:
    rows: list[dict[str, Any]] = []
    for stage in range(stages):
        for at in range(10):
            rows.append(
                {
                    "request_id": f"{stage}-{at}",
                    "stage": stage,
                    "status": "ok",
                    "sent_s": at,
                    "prompt_tokens": 7,
                    "first_token_s": at + 0.1,
                    "last_token_s": at + 0.5,
                    "output_tokens": 5,
                }
            )
        rows.append(
            {"request_id": f"{stage}-x", "stage": stage, "status": "lost", "sent_s": 3.0, "error": "cut"}
        )
    chunks = {row["request_id"]: [0.1, 0.3, 0.5] for row in rows}
    stamp = Stamp(
        Kind.MEASURED,
        "m",
        "vLLM",
        "1",
        "c",
        {"name": "b"},
        "2026-01-02T03:04:05+00:00",
        workload={"stages": {str(stage): {"concurrency": 4} for stage in range(stages)}},
    )
    return Run.from_rows(rows, stamp, chunk_times_s=chunks)


def test_the_numbers_are_those_of_the_table() -> None:
    told = to_vllm_bench_json(run(), slo=SLO(ttft_p99_s=0.2))
    assert (told["completed"], told["failed"], told["num_prompts"], told["max_concurrency"]) == (10, 1, 11, 4)
    assert told["duration"] == pytest.approx(9.5)
    assert told["output_throughput"] == pytest.approx(50 / 9.5)
    assert told["request_goodput"] == pytest.approx(10 / 9.5)
    assert told["mean_ttft_ms"] == pytest.approx(100)
    assert told["p99_tpot_ms"] == pytest.approx(100)
    assert told["median_itl_ms"] == pytest.approx(200), "a gap between chunks, as there"
    assert told["mean_e2el_ms"] == pytest.approx(500)
    assert told["date"] == "20260102-030405"


def test_without_chunk_times_there_is_no_gap_between_chunks() -> None:
    bare = Run(run().requests, run().stamp)
    assert "mean_itl_ms" not in to_vllm_bench_json(bare)


def test_several_stages_are_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    write_vllm_bench_json(run(3), path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert np.array([line["completed"] for line in lines]).tolist() == [10, 10, 10]
    with pytest.raises(KilocardError, match="name the one"):
        to_vllm_bench_json(run(3))
    with pytest.raises(KilocardError, match="cannot write"):
        write_vllm_bench_json(run(), tmp_path)


def test_what_is_undefined_is_null_and_never_a_fault(tmp_path: Path) -> None:
    path, whole = tmp_path / "bench.json", run()
    unclocked = whole.requests.assign(last_token_s=pd.NA, prompt_tokens=pd.NA).astype(whole.requests.dtypes)
    write_vllm_bench_json(Run(unclocked, replace(whole.stamp, started_at="long ago")), path)
    told = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert (told["duration"], told["request_throughput"], told["date"]) == (None, None, None)
    with pytest.raises(KilocardError, match="no stage"):
        write_vllm_bench_json(Run.from_rows([], whole.stamp), path)
