"""Measurements that a user brings to a calibration: a run of this book, or numbers beside a case."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import yaml

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts import KvDtype, Model
from kilocard.facts.card import Card
from kilocard.fleet.observation import NOISE, STATISTICS, WHOLE_RUN, Observation, Value
from kilocard.record import Run
from kilocard.specs import Case, case_from
from kilocard.stats import summarise

FITTED = ("ttft_s", "tpot_s", "e2e_s", "itl_s", "output_tokens_per_s")
NAMED = (
    *("tensor_parallel_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size"),
    "enable_prefix_caching",
)
CPU_FLAVOURS = ("cpu", "emulated")
CPU_BLOCK_TOKENS = 128
WRITE_LIKE = (
    "write it like ttft_s=0.05,e2e_s=4.5, or name a file with keys such as ttft_s: {mean: 0.05, p90: 0.06}"
)


def observation_of_run(
    run: Run, card: str | Card, engine: Mapping[str, Any] | None = None, stages: Sequence[int] | None = None
) -> Observation:
    """A sweep that `kilocard bench` measured: its medians by level; `engine` adds settings that its stamp
    does not name."""
    case = case_of_run(run, card, engine)
    values = []
    for summary in summarise(run):
        if stages is not None and summary.stage not in stages:
            continue
        for metric, value in (("ttft_s", summary.ttft_s.p50), ("tpot_s", summary.tpot_s.p50)):
            if value is not None:
                values.append(Value(summary.stage, metric, "p50", value))
        if summary.output_tokens_per_s is not None:
            values.append(Value(summary.stage, "output_tokens_per_s", "mean", summary.output_tokens_per_s))
    if not values:
        raise KilocardError("the run has no level with enough good requests to calibrate on")
    return Observation(run.stamp.model, case, tuple(values))


def case_of_run(run: Run, card: str | Card, engine: Mapping[str, Any] | None = None) -> Case:
    """The case that a run's stamp describes: its model, its engine's settings, the levels of its sweep."""
    told = run.stamp.workload
    stages = [_stage(run, number) for number in run.stages]
    return case_from(
        {
            "model": run.stamp.model,
            "card": card,
            "engine": _engine(run, facts.model(run.stamp.model)) | dict(engine or {}),
            "workload": {
                "stages": stages,
                "prompt_tokens": _tokens(told, "prompt_tokens", run),
                "output_tokens": _tokens(told, "output_tokens", run),
            },
            "seed": run.stamp.seed or 0,
        },
        "the run's stamp",
    )


def _engine(run: Run, model: Model) -> dict[str, Any]:
    """The settings that the stamp names; the CPU build plans no step ahead, and pages by 128 tokens."""
    told = run.stamp.settings
    settings: dict[str, Any] = {name: told[name] for name in NAMED if told.get(name)}
    if told.get("flavour") in CPU_FLAVOURS:
        settings = {"block_size": CPU_BLOCK_TOKENS, "async_scheduling": False} | settings
    if told.get("kv_cache_memory_bytes"):
        block_bytes = settings.get("block_size", 16) * model.kv_bytes_per_token(KvDtype.BF16)
        settings["kv_blocks"] = int(told["kv_cache_memory_bytes"]) // block_bytes
    return settings


def _stage(run: Run, number: int) -> dict[str, Any]:
    level = run.stamp.workload.get("stages", {}).get(str(number), {})
    count = int((run.requests["stage"] == number).sum())
    if level.get("concurrency"):
        return {"concurrency": int(level["concurrency"]), "requests": count}
    if level.get("rate_per_s"):
        return {"rate_per_s": float(level["rate_per_s"]), "requests": count}
    raise KilocardError(
        f"stage {number} of the run names neither a concurrency nor a rate: only sweeps calibrate"
    )


def _tokens(told: Mapping[str, Any], name: str, run: Run) -> Any:
    """The length as the workload states it where all are equal, else the lengths that were seen."""
    if isinstance(told.get(name), int):
        return told[name]
    seen = run.ok[name].dropna().astype(int).tolist()
    if not seen:
        raise KilocardError(f"the run tells no {name}: it cannot calibrate")
    return {"kind": "empirical", "observed_tokens": seen}


def observation_of_case(case: Case, measured: str) -> Observation:
    """Numbers beside a case: `name=value,…`, or a JSON or YAML file of them, whole or under `run` and
    `stages`."""
    values = tuple(_inline(measured) if "=" in measured else _in_file(measured))
    if not values:
        raise KilocardError(f"{measured!r} holds nothing to fit: {WRITE_LIKE}")
    return Observation("the case", case, values)


def _inline(text: str) -> Iterator[Value]:
    for part in text.split(","):
        name, _, number = part.partition("=")
        metric, _, statistic = name.strip().partition(".")
        yield _value(WHOLE_RUN, metric, statistic or "mean", number)


def _in_file(path: str) -> Iterator[Value]:
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
        raw = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise KilocardError(f"cannot read the measurements {path}: {reason}; {WRITE_LIKE}") from error
    if not isinstance(raw, Mapping):
        raise KilocardError(f"{path} holds no measurements: {WRITE_LIKE}")
    stages = raw.get("stages") if isinstance(raw.get("stages"), list) else []
    for number, stage in enumerate(stages or []):
        if isinstance(stage, Mapping):
            yield from _numbers(int(stage.get("stage", number)), stage)
    if not stages:
        yield from _numbers(WHOLE_RUN, raw["run"] if isinstance(raw.get("run"), Mapping) else raw)


def _numbers(stage: int, content: Mapping[str, Any]) -> Iterator[Value]:
    for metric in FITTED:
        given = content.get(metric)
        if isinstance(given, Mapping):
            for statistic in STATISTICS:
                if statistic in ("mean", "p50") and given.get(statistic) is not None:
                    yield _value(stage, metric, statistic, given[statistic])
        elif given is not None:
            yield _value(stage, metric, "mean", given)


def _value(stage: int, metric: str, statistic: str, given: Any) -> Value:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = float("nan")
    if metric not in NOISE or not isfinite(number):
        raise KilocardError(f"measured {metric}={given!r}: {WRITE_LIKE}")
    return Value(stage, metric, statistic, number)
