"""Mean and tail latencies of vLLM 0.15.1 on H100s at constant rates, run by run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from kilocard.fleet.observation import WHOLE_RUN, Observation, Value
from kilocard.specs import case_from

RATE_TABLE = "vllm_h100_rate_table.csv"

SOURCE = "inference-sim/sim-to-real-accuracy-validation: vLLM 0.15.1 on H100, 13 runs of 6 models, TP 1 to 4"
LATENCIES = {
    "ttft_mean_ms": ("ttft_s", "mean"),
    "e2e_mean_ms": ("e2e_s", "mean"),
    "ttft_p90_ms": ("ttft_s", "p90"),
    "e2e_p90_ms": ("e2e_s", "p90"),
    "e2e_p99_ms": ("e2e_s", "p99"),
}
FITTED = (("ttft_s", "mean"), ("e2e_s", "mean"))
"""Means are fitted; percentiles are only compared. ITL is left out: where that client counted tokens anew,
it reads high."""


def rate_table(folder: Path) -> list[Observation]:
    """Every run of the H100 table: its stages and the whole of it, means and percentiles."""
    table = pd.read_csv(folder / RATE_TABLE)
    return [_observation(str(name), rows) for name, rows in table.groupby("experiment", sort=False)]


def fitted_part(observation: Observation) -> Observation:
    """The values of an observation that a fit uses: the means of its stages."""
    kept = [v for v in observation.values if v.stage != WHOLE_RUN and (v.metric, v.statistic) in FITTED]
    return Observation(observation.name, observation.case, tuple(kept))


def _observation(name: str, rows: pd.DataFrame) -> Observation:
    stages = rows[rows["stage"] != WHOLE_RUN].sort_values("stage")
    row = rows.iloc[0]
    case = case_from(
        {
            "model": row["model"].replace("RedHatAI/", "meta-llama/").replace("-FP8-dynamic", ""),
            "card": "h100-sxm",
            "weights": "fp8" if row["precision"] == "FP8" else "bf16",
            "engine": {
                "tensor_parallel_size": int(row["tp"]),
                "max_num_seqs": int(row["max_num_seqs"]),
                "max_num_batched_tokens": int(row["max_num_batched_tokens"]),
                "kv_blocks": int(row["total_kv_blocks"]),
            },
            "workload": {
                "stages": [
                    {"rate_per_s": float(stage["rate_rps"]), "duration_s": float(stage["duration_s"])}
                    for _, stage in stages.iterrows()
                ],
                "arrivals": "constant",
                "prompt_tokens": int(row["system_prompt_len"] + row["question_len"]),
                "output_tokens": int(row["output_len"]),
                "system_prompts": {
                    "count": int(row["num_unique_system_prompts"]),
                    "tokens": int(row["system_prompt_len"]),
                    "users_each": int(row["num_users_per_system_prompt"]),
                },
            },
        },
        name,
    )
    return Observation(name, case, tuple(value for _, row in rows.iterrows() for value in _values(row)))


def _values(row: Any) -> Iterator[Value]:
    for column, (metric, statistic) in LATENCIES.items():
        yield Value(int(row["stage"]), metric, statistic, float(row[column]) / 1000)
