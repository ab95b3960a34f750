"""A run as an observation: the case that its stamp describes, and what was measured of it."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts import KvDtype, Model
from kilocard.facts.card import Card
from kilocard.facts.yaml_rows import id_of
from kilocard.fleet.observation import Observation, Value
from kilocard.fleet.plausible import require_plausible
from kilocard.record import Run, Status
from kilocard.specs import Case, EngineSettings, case_from
from kilocard.stats import summarise

CPU_FLAVOURS = ("cpu", "emulated")
CPU_BLOCK_TOKENS = 128
LAYOUT = re.compile(
    r"TP (?P<tp>\d+)(?: x PP (?P<pp>\d+))?(?: x DP (?P<dp>\d+))?(?: x (?P<replicas>\d+) replicas)?"
)
MOST_FAILED = 0.1
"""Of the requests: beyond it, those that ended well are no fair sample."""
MOST_FOUND = 0.05
"""Of the prompt tokens in the prefix cache."""

OTHER_NUMBERS = ("quantization", "kv_cache_dtype")
SHARED = ("shared_prefix", "system_prompts", "distinct_prompts", "turns")
BESIDE_A_CASE = "write a case of it, and give its numbers with --measured"


def observation_of_run(
    run: Run, card: str | Card, engine: Mapping[str, Any] | None = None, stages: Sequence[int] | None = None
) -> Observation:
    """A sweep that `kilocard bench` measured: its medians by level; `engine` adds settings that its stamp
    does not name."""
    case = case_of_run(run, card, engine)
    values = []
    for summary in summarise(run):
        if (stages is not None and summary.stage not in stages) or summary.ttft_s.p50 is None:
            continue
        for metric, value in (("ttft_s", summary.ttft_s.p50), ("tpot_s", summary.tpot_s.p50)):
            if value is not None:
                values.append(Value(summary.stage, metric, "p50", value))
        if summary.output_tokens_per_s is not None:
            values.append(Value(summary.stage, "output_tokens_per_s", "mean", summary.output_tokens_per_s))
    if not values:
        raise KilocardError("the run has no level with 10 good requests or more: too few to calibrate on")
    return Observation(run.stamp.model, case, require_plausible(values))


def require_usable(run: Run, card: str, stages: Sequence[int] | None = None) -> list[str]:
    """Refuse a run that its stamp or its failures disqualify; what remains to be said of it is returned."""
    if not run.stamp.valid:
        raise KilocardError(
            f"the run is not valid ({run.stamp.invalid_reason or 'its stamp does not say why'}): measure anew"
        )
    told, chosen = _catalogue_card(run.stamp.card), facts.card(card)
    if told and told != chosen.id:
        raise KilocardError(
            f"the run's stamp says that it ran on {told}, not on {chosen.id}: give --card {told}"
        )
    rows = run.requests if stages is None else run.requests[run.requests["stage"].isin(stages)]
    failed, total = int((rows["status"] != Status.OK).sum()), len(rows)
    if failed > MOST_FAILED * total:
        raise KilocardError(
            f"{failed} of {total} requests did not end well: at most {MOST_FAILED:.0%} may fail; "
            "name levels without failures with --levels, or measure anew"
        )
    _require_cold(run)
    return [f"{failed} of {total} requests did not end well: only the others count"] if failed else []


def _require_cold(run: Run) -> None:
    """The case computes every prompt whole; one that was asked before is found in the prefix cache."""
    found, asked = (int(run.ok[name].fillna(0).sum()) for name in ("cached_tokens", "prompt_tokens"))
    if found > MOST_FOUND * asked:
        raise KilocardError(
            f"{found:,} of {asked:,} prompt tokens were found in the prefix cache, for this engine had seen "
            "the prompts: measure with another --seed, or on an engine that starts anew"
        )


def _catalogue_card(told: str) -> str | None:
    """The catalogue's id of the card that a stamp names, by its id or its name."""
    for card in facts.cards().values():
        if id_of(told) in (id_of(card.id), id_of(card.name)):
            return card.id
    return None


def case_of_run(run: Run, card: str | Card, engine: Mapping[str, Any] | None = None) -> Case:
    """The case that a run's stamp describes: its model, its engine's settings, the levels of its sweep."""
    told = run.stamp.workload
    for name in SHARED:
        if told.get(name) not in (None, 1):
            raise KilocardError(f"the prompts of the run share parts ({name}): {BESIDE_A_CASE}")
    replicas, layout = _layout(run.stamp.layout)
    stages = [_stage(run, number) for number in run.stages]
    settings = layout | _engine(run, facts.model(run.stamp.model)) | dict(engine or {})
    return case_from(
        {
            "model": run.stamp.model,
            "card": card,
            "engine": settings,
            "replicas": replicas,
            "workload": {
                "stages": stages,
                "prompt_tokens": _tokens(told, "prompt_tokens", run),
                "output_tokens": _tokens(told, "output_tokens", run),
            }
            | _arrivals(told, stages),
            "seed": run.stamp.seed or 0,
        },
        "the run's stamp",
    )


def _layout(told: str) -> tuple[int, dict[str, int]]:
    """Replicas, and the parallel sizes of each."""
    found = LAYOUT.fullmatch(told)
    if not found:
        raise KilocardError(
            f"the run's layout {told[:60]!r} is not one of TP, PP, DP and replicas: {BESIDE_A_CASE}"
        )
    names = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size"}
    return int(found["replicas"] or 1), {name: int(found[part] or 1) for part, name in names.items()}


def _engine(run: Run, model: Model) -> dict[str, Any]:
    """The settings that the stamp names; the CPU build plans no step ahead, and pages by 128 tokens."""
    told = run.stamp.settings
    for name in OTHER_NUMBERS:
        if told.get(name) not in (None, "auto"):
            raise KilocardError(f"the run's engine had {name}={told[name]!r}: {BESIDE_A_CASE}")
    settings: dict[str, Any] = {
        name: told[name] for name in EngineSettings.model_fields if told.get(name) is not None
    }
    if told.get("flavour") in CPU_FLAVOURS:
        settings = {"block_size": CPU_BLOCK_TOKENS, "async_scheduling": False} | settings
    if told.get("kv_cache_memory_bytes"):
        kv_bytes = _count("kv_cache_memory_bytes", told["kv_cache_memory_bytes"])
        block_tokens = _count("block_size", settings.get("block_size", 16))
        settings["kv_blocks"] = kv_bytes // (block_tokens * model.kv_bytes_per_token(KvDtype.BF16))
    return settings


def _count(name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise KilocardError(f"the run's stamp: {name} is {reprlib.repr(given)}, no whole number from 1 up")
    return given


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


def _arrivals(told: Mapping[str, Any], stages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How an open loop's requests came; a stamp of `bench` holds a whole description."""
    if not any("rate_per_s" in stage for stage in stages):
        return {}
    given = told.get("arrivals")
    about: Mapping[str, Any] = (
        given if isinstance(given, Mapping) else {"process": given, "cv": told.get("cv")}
    )
    if about.get("ramp_s"):
        raise KilocardError(f"the run's rate rises: {BESIDE_A_CASE}")
    found = {"arrivals": about.get("process"), "cv": about.get("cv")}
    return {name: value for name, value in found.items() if value is not None}


def _tokens(told: Mapping[str, Any], name: str, run: Run) -> Any:
    """The length as the workload states it where all are equal, else the lengths that were seen."""
    if isinstance(told.get(name), int):
        return told[name]
    seen = run.ok[name].dropna().astype(int).tolist()
    if not seen:
        raise KilocardError(f"the run tells no {name}: it cannot calibrate")
    return {"kind": "empirical", "observed_tokens": seen}
