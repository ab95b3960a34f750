"""A run in the form that `vllm bench serve --save-result` writes, for tools that read that."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kilocard.errors import KilocardError
from kilocard.record import Run, Status
from kilocard.record.plain import to_json
from kilocard.specs import SLO
from kilocard.stats import e2e_s, is_good, tpot_s, ttft_s

PERCENTILES = (50, 90, 95, 99)


def to_vllm_bench_json(run: Run, stage: int | None = None, slo: SLO | None = None) -> dict[str, Any]:
    """One stage (the only one unless named) with vLLM's keys: milliseconds, rates over the whole duration.

    As there, TPOT is (last − first) / (n − 1) and ITL is the gap between chunks, not tokens; ITL needs a
    run that kept its chunk times. Percentiles are vLLM's too: shown whatever their n.
    """
    number = _only_stage(run) if stage is None else stage
    part = run.stage(number)
    table, ok = part.requests, part.ok
    if ok.empty:
        raise KilocardError(f"stage {number} has no request that ended well: there is nothing to export")
    level = run.stamp.workload.get("stages", {}).get(str(number), {})
    duration = _number(table["last_token_s"].max() - table["sent_s"].min())
    tokens_in, tokens_out = int(ok["prompt_tokens"].sum()), int(ok["output_tokens"].fillna(0).sum())
    return {
        "date": _date(run.stamp.started_at),
        "endpoint_type": "openai",
        "backend": "openai",
        "label": "kilocard",
        "model_id": run.stamp.model,
        "tokenizer_id": None,
        "num_prompts": len(table),
        "request_rate": level.get("rate_per_s", "inf"),
        "burstiness": 1.0,
        "max_concurrency": level.get("concurrency"),
        "duration": duration,
        "completed": len(ok),
        "failed": len(table) - len(ok),
        "total_input_tokens": tokens_in,
        "total_output_tokens": tokens_out,
        "request_throughput": _rate(len(ok), duration),
        "request_goodput": _rate(int(is_good(table, slo).sum()), duration) if slo else None,
        "output_throughput": _rate(tokens_out, duration),
        "total_token_throughput": _rate(tokens_in + tokens_out, duration),
        "input_lens": [int(count) for count in ok["prompt_tokens"].fillna(0)],
        "output_lens": [int(count) for count in ok["output_tokens"].fillna(0)],
        "ttfts": [float(value) for value in ttft_s(ok).dropna()],
        "start_times": [_number(value) for value in ok["sent_s"]],
        "errors": [
            str(value) if status != Status.OK else ""
            for status, value in zip(table["status"], table["error"], strict=True)
        ],
        **_milliseconds("ttft", ttft_s(ok).dropna().tolist()),
        **_milliseconds("tpot", tpot_s(ok).dropna().tolist()),
        **_milliseconds("itl", _chunk_gaps(part)),
        **_milliseconds("e2el", e2e_s(ok).dropna().tolist()),
    }


def write_vllm_bench_json(run: Run, path: Path, slo: SLO | None = None) -> None:
    """One object; several stages are one a line, as vLLM's `--append-result` leaves them."""
    if not run.stages:
        raise KilocardError("the run has no stage: there is nothing to export")
    lines = [to_json(to_vllm_bench_json(run, stage, slo)) for stage in run.stages]
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise KilocardError(f"cannot write {path}: {error.strerror or error}; name another file") from error


def _only_stage(run: Run) -> int:
    if len(run.stages) != 1:
        raise KilocardError(f"the run has the stages {run.stages}: name the one to export")
    return run.stages[0]


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _rate(count: int, duration_s: float | None) -> float | None:
    return count / duration_s if duration_s else None


def _date(started_at: str) -> str | None:
    try:
        return datetime.fromisoformat(started_at).strftime("%Y%m%d-%H%M%S")
    except ValueError:
        return None


def _chunk_gaps(part: Run) -> list[float]:
    gaps: list[float] = []
    for request_id in part.ok["request_id"]:
        gaps += np.diff(part.chunk_times_s.get(request_id, [])).tolist()
    return gaps


def _milliseconds(name: str, seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    values = 1000 * np.asarray(seconds, dtype=float)
    return {
        f"mean_{name}_ms": float(values.mean()),
        f"median_{name}_ms": float(np.median(values)),
        f"std_{name}_ms": float(values.std()),
        **{f"p{share}_{name}_ms": float(np.percentile(values, share)) for share in PERCENTILES},
    }
