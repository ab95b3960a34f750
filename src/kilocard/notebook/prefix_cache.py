"""What a prefix cache saves, one request at a time: measured on an engine, predicted by the engine model."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kilocard.engine_model.step_time import Floats, StepTime
from kilocard.fleet.in_turn import Prompt, ask_in_turn
from kilocard.launch import Engine
from kilocard.load import sweep
from kilocard.record import Run
from kilocard.specs.case import EngineSettings
from kilocard.stats import ttft_s
from kilocard.workload import SharedPrefix

STEP_TOKENS = 8192
"""The longest step that a fitted step time is tabled for."""


def ask(
    engine: Engine, prompt_tokens: int, shared_tokens: int = 0, *, requests: int = 3, seed: int | None = None
) -> Run:
    """One request after the other, for one token each; all begin with the same `shared_tokens`.

    Without a seed the prompts are new at every call, so that none meets the cache of an earlier one; with
    the seed of an earlier call they are those prompts again.
    """
    return sweep(
        engine.url,
        engine.model,
        concurrency=(1,),
        requests_per_level=requests,
        prompt_tokens=prompt_tokens,
        output_tokens=1,
        prefix=SharedPrefix(shared_tokens) if shared_tokens else None,
        warmup=0,
        seed=secrets.randbits(31) if seed is None else seed,
        stamp=engine.stamp_fields(),
    )


def first_ttft_s(run: Run) -> float:
    """TTFT of the request that came first: nobody had its prefix before."""
    return float(ttft_s(run.ok).iloc[0])


def later_ttft_s(run: Run) -> float:
    """Median TTFT of those that came after it."""
    return float(ttft_s(run.ok).iloc[1:].median())


def later_cached(run: Run) -> int:
    """Tokens that the engine says it found for each of those that came after, by its usage."""
    return int(run.ok["cached_tokens"].fillna(0).iloc[1:].median())


def prompt_step(cold: Iterable[Run]) -> StepTime:
    """A step's seconds as a sum of a fixed part, one for each token and one for each attended pair.

    Least squares of the relative errors over requests that found nothing in the cache.
    """
    requests = [run.ok for run in cold]
    tokens = np.concatenate([table["prompt_tokens"].to_numpy(float) for table in requests])
    seconds = np.concatenate([ttft_s(table).to_numpy(float) for table in requests])
    columns = np.stack([np.ones_like(tokens), tokens, tokens * (tokens + 1) / 2], axis=1)
    fixed_s, token_s, pair_s = _least_squares(columns / seconds[:, None], np.ones_like(seconds))
    return StepTime(
        tokens_s=token_s * np.arange(STEP_TOKENS + 1.0),
        kv_token_s=0.0,
        sequence_s=0.0,
        prefill_step_s=fixed_s,
        pair_s=pair_s,
    )


def _least_squares(columns: Floats, wanted: Floats) -> Floats:
    """The best coefficients of which none is negative: a column whose own would be is left out."""
    best = np.zeros(columns.shape[1])
    used = np.ones(len(best), bool)
    while used.any():
        found = np.linalg.lstsq(columns[:, used], wanted, rcond=None)[0]
        if found.min() >= 0:
            best[used] = found
            break
        used[np.flatnonzero(used)[found.argmin()]] = False
    return best


def predict(engine: Engine, prompts: Sequence[Prompt], step: StepTime) -> Run:
    """The same prompts in the same order on the engine model, with as many KV blocks as the engine has."""
    seen = engine.metrics()
    settings = EngineSettings(
        max_num_seqs=engine.spec.max_num_seqs or 256,
        max_num_batched_tokens=STEP_TOKENS,
        block_size=seen.kv_block_tokens or 16,
        kv_blocks=(seen.kv_blocks or 2) - 1,  # vLLM keeps block 0 for padding
    )
    return ask_in_turn(prompts, settings, step, model=engine.spec.model, source="cold prompts on this engine")


def prompts_of(runs: Mapping[int, Run]) -> list[Prompt]:
    """The prompts of runs by shared tokens, in the order in which they were asked."""
    return [
        Prompt(int(tokens), stream, shared)
        for stream, (shared, run) in enumerate(runs.items())
        for tokens in run.requests["prompt_tokens"]
    ]
