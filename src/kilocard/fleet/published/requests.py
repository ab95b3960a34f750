"""Request by request: 300 ShareGPT requests at 10/s on vLLM 0.19 (LLMServingSim), as arrivals to replay."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kilocard.engine_model.calibration import Calibration
from kilocard.engine_model.coefficients import Coefficients
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.fleet.simulate import simulate_traffic
from kilocard.fleet.traffic import NOBODY, Paths, Traffic
from kilocard.specs import Case, case_from

SOURCE = "casys-kaist/LLMServingSim: vLLM 0.19, 300 ShareGPT requests at 10/s"
BLOCK_TOKENS = 16
KV_SEEN_RATIO = 0.2
"""Below it the reported share of the cache is too coarse to tell the cache's size from."""

RUNS = {
    "rtx-4090": ("RTX4090_Llama-3.1-8B", "llama-3.1-8b", 1),
    "rtx-pro-6000": ("RTXPRO6000_Qwen3-32B", "qwen3-32b", 2),
}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RequestRun:
    """A run's requests and what was measured of each: time to its first token, and from there to its last."""

    card: str
    case: Case
    traffic: Traffic
    ttft_s: Floats
    decode_s: Floats

    def predict(self, coefficients: Coefficients) -> tuple[Floats, Floats]:
        """Both times of every request, simulated."""
        calibration = Calibration("being fitted", "run", coefficients, "")
        requests = simulate_traffic(self.case, self.traffic, calibration).engines.tables.requests
        first_s = (requests.first_ps - requests.arrival_ps) / PICOSECONDS
        return first_s, (requests.last_ps - requests.first_ps) / PICOSECONDS


def request_run(folder: Path, card: str) -> RequestRun:
    """The run on that card. Times count from when the engine queued a request: its front end's clock is
    another one."""
    name, model, tp = RUNS[card]
    lines = (folder / f"llmservingsim_{name}_requests.jsonl").read_text(encoding="utf-8").splitlines()
    rows = pd.DataFrame([json.loads(line) for line in lines]).sort_values("queued_ts", ignore_index=True)
    seconds = pd.read_csv(folder / f"llmservingsim_{name}_timeseries.csv")
    begin = rows["queued_ts"].min()
    case = case_from(
        {
            "model": model,
            "card": card,
            "engine": {
                "tensor_parallel_size": tp,
                "max_num_seqs": 128,
                "max_num_batched_tokens": 2048,
                "kv_blocks": _kv_blocks(rows, seconds),
            },
            "workload": {"requests": 1, "rate_per_s": 1, "prompt_tokens": 1, "output_tokens": 1},
        },
        name,
    )
    nothing = np.zeros(len(rows), np.int64)
    traffic = Traffic(
        arrival_s=(rows["queued_ts"] - begin).to_numpy(),
        prompt_tokens=rows["input_toks"].to_numpy(np.int64),
        output_tokens=rows["output_toks"].to_numpy(np.int64),
        stage=nothing,
        priority=nothing,
        follows=np.full(len(rows), NOBODY),
        gap_s=np.zeros(len(rows)),
        paths=Paths(nothing, nothing, nothing[:0], nothing[:0]),
    )
    first, last = rows["first_token_ts"], rows["last_token_ts"]
    return RequestRun(card, case, traffic, (first - rows["queued_ts"]).to_numpy(), (last - first).to_numpy())


def _kv_blocks(rows: pd.DataFrame, seconds: pd.DataFrame) -> int:
    """The size of the cache, from the share of it in use and what the running requests held; ample where
    never full."""
    sizes = []
    for now, percent in zip(seconds["t"] + rows["queued_ts"].min(), seconds["kv_cache_pct"], strict=True):
        running = rows[(rows["scheduled_ts"] <= now) & (rows["last_token_ts"] > now)]
        if percent < 100 * KV_SEEN_RATIO or running.empty:
            continue
        share = (now - running["first_token_ts"]) / (running["last_token_ts"] - running["first_token_ts"])
        tokens = running["input_toks"] + share.clip(0, 1) * running["output_toks"]
        sizes.append(np.ceil(tokens / BLOCK_TOKENS).sum() / (percent / 100))
    return int(np.median(sizes)) if sizes else 60_000
