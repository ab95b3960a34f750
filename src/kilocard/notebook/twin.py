"""The engine in front of you and its twin in the engine model: the same settings, step times from a few
runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.calibration import calibration_for
from kilocard.engine_model.step_time import StepTime
from kilocard.engine_model.watch import Watched, watch
from kilocard.errors import KilocardError
from kilocard.facts import KvDtype, model
from kilocard.fleet.build import case_step_time, kv_blocks, state_blocks
from kilocard.launch import Engine, default_spec
from kilocard.notebook.measure import crowd
from kilocard.record import Run
from kilocard.specs.case import EngineSettings, case_from, settings_from
from kilocard.specs.demand import NO_LOAD
from kilocard.specs.engine import EngineSpec
from kilocard.stats import tpot_s, ttft_s
from kilocard.workload import Request

SHORT_TOKENS, ANSWER_TOKENS = 64, 24
LONG_TOKENS = (448, 1280)
CROWD = 16
TOLD_BY_STEPS = {
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "gpu_memory_utilization",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Twin:
    """An engine of the model that stands in for a real one."""

    settings: EngineSettings
    step_time: StepTime
    request_s: float
    model: str
    card: str
    state_blocks: int = 0

    def serve(self, requests: Sequence[Request], **settings: Any) -> Watched:
        """Serve the requests, with some settings changed; its step times stay what they are."""
        if fixed := sorted(TOLD_BY_STEPS & settings.keys()):
            raise KilocardError(
                f"{', '.join(fixed)} would change what a step costs: make another twin, with twin_on"
            )
        return watch(
            requests,
            settings_from({**self.settings.model_dump(), **settings}),
            self.step_time,
            request_s=self.request_s,
            state_blocks=self.state_blocks,
            model=self.model,
            card=self.card,
        )


def twin_on(name: str, card: str, *, weights: str = "bf16", **settings: Any) -> Twin:
    """A twin of an engine on a card of the catalogue, by the card's calibration and the ledger."""
    case = case_from(
        {
            "model": name, "card": card, "weights": weights, "engine": settings,
            "workload": NO_LOAD.model_dump(),
        },
        "the twin",
    )  # fmt: skip
    found = calibration_for(card)
    engine = case.engine.model_copy(update={"kv_blocks": kv_blocks(case)})
    costs = case_step_time(case, found)
    return Twin(engine, costs, found.coefficients.request_s, name, card, state_blocks(case))


def twin_of(engine: Engine) -> Twin:
    """The twin of a real engine: four small loads tell what its steps cost (about ten seconds)."""
    seed = time.time_ns() % 2**32
    alone = _load(engine, 1, SHORT_TOKENS, seed)
    many = _load(engine, CROWD, SHORT_TOKENS, seed + 1)
    long = {tokens: _load(engine, 1, tokens, seed + tokens) for tokens in LONG_TOKENS}
    settings = settings_of(engine)
    step_s, token_s, sequence_s, kv_token_s, pair_s, prefill_step_s = _costs(alone, many, long)
    tokens = np.arange(settings.max_num_batched_tokens + 1)
    fields = engine.stamp_fields()
    return Twin(
        settings,
        StepTime(step_s + token_s * tokens, kv_token_s, sequence_s, prefill_step_s, pair_s),
        0.0,
        fields["model"],
        fields["card"],
    )


def small_cache(blocks: int, block_tokens: int) -> EngineSpec:
    """The book's engine with a KV cache of so many tokens, and no `max_model_len` beyond it."""
    spec = default_spec()
    tokens = blocks * block_tokens
    kv_bytes = tokens * model(spec.model).kv_bytes_per_token(KvDtype.BF16)
    return spec.model_copy(update={"kv_cache_memory_bytes": kv_bytes, "max_model_len": tokens * 2 // 3})


def settings_of(engine: Engine) -> EngineSettings:
    """The settings of a real engine, vLLM's defaults where it names none. It keeps one block for itself."""
    spec, seen = engine.spec, engine.metrics()
    on_cpu = engine.flavour.is_cpu
    return EngineSettings(
        max_num_seqs=spec.max_num_seqs or (128 if on_cpu else 256),
        max_num_batched_tokens=spec.max_num_batched_tokens or (2048 if on_cpu else 8192),
        block_size=seen.kv_block_tokens or 16,
        kv_blocks=seen.kv_blocks - 1 if seen.kv_blocks else None,
        async_scheduling=not on_cpu,
    )


def _load(engine: Engine, requests: int, prompt_tokens: int, seed: int) -> Run:
    return crowd(
        engine, requests, prompt_tokens=prompt_tokens, output_tokens=ANSWER_TOKENS, seed=seed, sampled=False
    )


def _costs(alone: Run, many: Run, long: dict[int, Run]) -> NDArray[np.float64]:
    """Seconds a step, a token, a request, a KV token, an attended pair, and a step with prompt tokens.

    What a request costs outside the steps looks like the last of them from here, and is small beside it.
    Least squares of relative errors, none below zero: TPOT of one and of a crowd, TTFT and TPOT by length.
    """
    half = ANSWER_TOKENS / 2
    prompts = {SHORT_TOKENS: alone, **long}
    rows = [([1, CROWD, CROWD, CROWD * (SHORT_TOKENS + half), 0, 0], float(tpot_s(many.ok).median()))]
    for tokens, run in prompts.items():
        first = [1, tokens, 1, tokens, tokens * (tokens + 1) / 2, 1]
        rows.append(([1, 1, 1, tokens + half, 0, 0], float(tpot_s(run.ok).median())))
        rows.append((first, float(ttft_s(run.ok).median())))
    terms = np.array([row for row, _ in rows], float)
    seconds = np.array([value for _, value in rows])
    if not (seconds > 0).all():
        raise KilocardError("an answer came in one piece or not at all: nothing to take step times from")
    return _never_negative(terms / seconds[:, None], np.ones(len(rows)))


def _never_negative(terms: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares without negative values: the most negative is set to 0 until there is none."""
    scale = np.abs(terms).max(axis=0)
    found, kept = np.zeros(terms.shape[1]), list(range(terms.shape[1]))
    while kept:
        values = np.linalg.lstsq((terms / scale)[:, kept], targets, rcond=None)[0]
        if values.min() >= 0:
            found[kept] = values
            break
        kept.pop(int(values.argmin()))
    solution: NDArray[np.float64] = found / scale
    return solution
