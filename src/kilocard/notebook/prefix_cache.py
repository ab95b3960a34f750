"""What a prefix cache saves, one request at a time: measured on an engine, predicted by the engine model."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from kilocard.engine_model.calibration import calibration_for
from kilocard.engine_model.step_time import Floats, StepTime, step_time
from kilocard.errors import KilocardError
from kilocard.fleet.in_turn import Prompt, ask_in_turn
from kilocard.launch import Engine
from kilocard.load import Streamed, send_one, sweep
from kilocard.load.target import DEFAULT_VOCABULARY
from kilocard.record import Run
from kilocard.specs.case import EngineSettings
from kilocard.stats import ttft_s
from kilocard.workload import Fixed, SharedPrefix, Workload

TELLS_CACHED = "--enable-prompt-tokens-details"
STEP_TOKENS = 16_384
"""The longest step that a step time is tabled for: a prompt is read in one."""


ANOTHER = 1
"""A stage that no run of one level has: its prompts have the same beginning, and tails of their own."""


def ask(engine: Engine, prompt_tokens: int, shared_tokens: int = 0, *, requests: int = 3) -> Run:
    """One request after the other, for one token each; all begin with the same `shared_tokens`.

    The prompts are new at every call: none meets the cache of an earlier one.
    """
    run = sweep(
        engine.url,
        engine.model,
        concurrency=(1,),
        requests_per_level=requests,
        prompt_tokens=prompt_tokens,
        output_tokens=1,
        prefix=SharedPrefix(shared_tokens) if shared_tokens else None,
        warmup=0,
        seed=secrets.randbits(31),
        stamp=engine.stamp_fields(),
    )
    if run.ok["cached_tokens"].isna().any():
        raise KilocardError(f"{engine.url} tells no cached tokens: start it with {TELLS_CACHED}")
    return run


def ask_again(engine: Engine, run: Run) -> Streamed:
    """One more request with the shared beginning of an earlier run, and a new tail."""
    tokens = int(run.requests["prompt_tokens"].iloc[0])
    prefix = SharedPrefix(shared_tokens(run))
    another = Workload(1, Fixed(tokens), Fixed(1), prefix=prefix, seed=run.stamp.seed or 0).draw(ANOTHER)[0]
    ids = another.prompt_ids(DEFAULT_VOCABULARY)
    return send_one(engine.url, engine.model, prompt=ids, max_tokens=1)


def shared_tokens(run: Run) -> int:
    """With how many tokens all prompts of a run begin alike."""
    prefix = run.stamp.workload["shared_prefix"]
    return int(prefix["tokens"]) if prefix else 0


def first_ttft_s(run: Run) -> float:
    """TTFT of the request that came first: nobody had its prefix before."""
    return float(ttft_s(run.requests).iloc[0])


def later_ttft_s(run: Run) -> float:
    """Median TTFT of those that came after it."""
    return float(ttft_s(run.requests).iloc[1:].median())


def later_cached(run: Run) -> int:
    """Tokens that each of those that came after found in the cache, by the engine's usage."""
    return int(run.requests["cached_tokens"].iloc[1:].median())


def saved_percent(groups: Sequence[Run]) -> list[float]:
    """What the later requests of each group saved of a first one's TTFT.

    That is the median over the group and its neighbours in time: a box may grow slower meanwhile.
    """
    first = [first_ttft_s(run) for run in groups]
    usual_s = [float(np.median(first[max(at - 1, 0) : at + 2])) for at in range(len(first))]
    return [100 * (1 - later_ttft_s(run) / usual) for run, usual in zip(groups, usual_s, strict=True)]


def prompt_step(seen: Sequence[Run]) -> StepTime:
    """A step's seconds as a sum of a fixed part, one for each token and one for each attended pair.

    Least squares of the relative errors over the first request of each run, which finds no prefix.
    """
    first = [run.requests.iloc[:1] for run in seen]
    tokens = np.concatenate([table["prompt_tokens"].to_numpy(float) for table in first])
    seconds = np.concatenate([ttft_s(table).to_numpy(float) for table in first])
    columns = np.stack([np.ones_like(tokens), tokens, tokens * (tokens + 1) / 2], axis=1)
    fixed_s, token_s, pair_s = _least_squares(columns / seconds[:, None], np.ones_like(seconds))
    return StepTime(
        tokens_s=token_s * np.arange(STEP_TOKENS + 1.0),
        kv_token_s=0.0,
        sequence_s=0.0,
        prefill_step_s=fixed_s,
        pair_s=pair_s,
    )


def card_step(model: str, card: str) -> tuple[StepTime, str]:
    """The same for a card of the catalogue, what a request costs outside the steps in it; and its source."""
    found = calibration_for(card)
    step = step_time(model, card, max_num_batched_tokens=STEP_TOKENS, coefficients=found.coefficients)
    fixed_s = step.prefill_step_s + found.coefficients.request_s
    return replace(step, prefill_step_s=fixed_s), found.name


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


def prompts_of(runs: Iterable[Run]) -> list[Prompt]:
    """The prompts of runs, in the order in which they were asked."""
    return [
        Prompt(int(tokens), run.stamp.seed or 0, shared_tokens(run))
        for run in runs
        for tokens in run.requests["prompt_tokens"]
    ]


def predict(engine: Engine, prompts: Sequence[Prompt], step: StepTime) -> Run:
    """The same prompts in the same order on the engine model, with as many KV blocks as the engine has."""
    seen = engine.metrics()
    settings = EngineSettings(
        max_num_batched_tokens=STEP_TOKENS,
        block_size=seen.kv_block_tokens or 16,
        kv_blocks=(seen.kv_blocks or 2) - 1,  # vLLM keeps block 0 for padding
    )
    return ask_in_turn(prompts, settings, step, model=engine.spec.model, source="its cold prompts here")


def predicted_curve(
    model: str, prompt_tokens: int, shared: Sequence[int], step: StepTime, block_tokens: int
) -> list[tuple[float, float]]:
    """TTFT, in seconds, of the first and of a later prompt, for each number of shared tokens."""
    blocks = 2 * (prompt_tokens // block_tokens + 1)
    settings = EngineSettings(
        max_num_batched_tokens=STEP_TOKENS, block_size=block_tokens, kv_blocks=len(shared) * blocks
    )
    asked = [Prompt(prompt_tokens, place, tokens) for place, tokens in enumerate(shared) for _ in range(2)]
    run = ask_in_turn(asked, settings, step, model=model, source="a step time")
    waits = ttft_s(run.requests).to_numpy(float)
    return list(zip(waits[::2].tolist(), waits[1::2].tolist(), strict=True))
