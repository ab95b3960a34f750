"""Measurements that a chapter makes in one line: an engine, a load, and the run that came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pandas import DataFrame

from kilocard.facts import Model, model
from kilocard.launch import Engine, sample
from kilocard.launch.place import share_cores
from kilocard.launch.process import usable_cores
from kilocard.load import replay, sweep
from kilocard.load.sweep import as_lengths
from kilocard.record import SAMPLE_COLUMNS, Run, typed
from kilocard.stats import StageSummary
from kilocard.workload import Arrivals, Lengths, Workload

SAMPLE_EVERY_S = 0.25
AT_ONCE = Arrivals(rate_per_s=1000.0, process="constant")
"""As near to at once as a client gets."""


def by_prompt_length(
    engine: Engine, prompt_tokens: Sequence[int], *, output_tokens: int = 16, repeats: int = 3
) -> dict[int, Run]:
    """One request at a time, at each prompt length."""
    return {
        tokens: sweep(
            engine.url,
            engine.model,
            concurrency=(1,),
            requests_per_level=repeats,
            prompt_tokens=tokens,
            output_tokens=output_tokens,
            stamp=engine.stamp_fields(),
            seed=tokens,
        )
        for tokens in prompt_tokens
    }


def crowd(
    engine: Engine,
    requests: int,
    *,
    prompt_tokens: int | Lengths,
    output_tokens: int | Lengths,
    seed: int = 0,
    sampled: bool = True,
) -> Run:
    """So many requests within a fraction of a second, and what the engine said of itself meanwhile."""
    load = Workload(requests, as_lengths(prompt_tokens), as_lengths(output_tokens), AT_ONCE, seed=seed)
    return served(engine, [load], sampled=sampled)


def served(engine: Engine, loads: Sequence[Workload], *, sampled: bool = True) -> Run:
    """The loads one after the other, each begun when the one before has ended."""
    if not sampled:
        return replay(engine.url, engine.model, workloads=loads, warmup=0, stamp=engine.stamp_fields())
    with sample(engine.url, SAMPLE_EVERY_S) as rows:
        run = replay(engine.url, engine.model, workloads=loads, warmup=0, stamp=engine.stamp_fields())
    return replace(run, samples=typed(rows, SAMPLE_COLUMNS))


def span_s(run: Run) -> float:
    """From the first request sent to the last token."""
    return float(run.ok["last_token_s"].max() - run.ok["sent_s"].min())


def by_arrival(run: Run) -> DataFrame:
    """The requests that ended well, in the order in which they were due."""
    return run.ok.sort_values("scheduled_s")


def engine_cores() -> int:
    """How many cores an engine gets on a box without cards."""
    return len(share_cores(1, usable_cores())[0])


def model_of(engine: Engine) -> Model:
    """The facts of the model that an engine serves."""
    return model(engine.spec.model)


def at_level(levels: Sequence[StageSummary], concurrency: int) -> StageSummary:
    """The level of a sweep with this concurrency."""
    return next(level for level in levels if level.concurrency == concurrency)


def growth(levels: Sequence[StageSummary], low: int, high: int) -> tuple[float, float]:
    """From one level to a higher one: the factor of throughput, and that of the median TPOT."""
    first, last = at_level(levels, low), at_level(levels, high)
    throughput = (last.output_tokens_per_s or 0.0) / (first.output_tokens_per_s or 1.0)
    return throughput, (last.tpot_s.p50 or 0.0) / (first.tpot_s.p50 or 1.0)
