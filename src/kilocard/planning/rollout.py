"""Verify small, then large: the stages of a roll-out, each with its pass mark."""

from __future__ import annotations

from dataclasses import dataclass

from kilocard.planning.search import Option, wanted_per_s
from kilocard.planning.trial import Trials, meets
from kilocard.specs.slo import SLO
from kilocard.specs.target import Target

SIZES = (1, 8, 64)
LADDER = 20
ROOM = 0.10
"""How far a measurement may be off a prediction before the plan is in doubt: the median error that the card's
calibration has shown is a part of it, the machine's own noise another."""


@dataclass(frozen=True, slots=True)
class Stage:
    """So many replicas under their part of the load. It is passed with `tokens_per_s` at least and both P99s
    at most; `predicted_*` is what the simulation says."""

    replicas: int
    requests_per_s: float
    tokens_per_s: float
    ttft_p99_s: float | None
    tpot_p99_s: float | None
    predicted_ttft_p99_s: float | None
    predicted_tpot_p99_s: float | None


def stages_for(target: Target, trials: Trials, option: Option) -> tuple[Stage, ...]:
    """One replica, 8, 64, and all; each at the load a replica that the plan counts on."""
    sizes = [*(size for size in SIZES if size < option.replicas), option.replicas]
    each_s = wanted_per_s(target) / option.replicas
    return tuple(_stage(target, trials, option, size, each_s) for size in sizes)


def _stage(target: Target, trials: Trials, option: Option, replicas: int, each_s: float) -> Stage:
    """Few replicas bear less each than many, which share their bursts: a stage's load is what so many bear
    within the SLO, and no more than the plan counts on."""
    loads = [each_s * (LADDER - step) / LADDER for step in range(LADDER)]
    for load in loads:
        seen = trials.seen(option.candidate, replicas, replicas * load)
        if meets(target.slo, seen):
            each_s = load
            break
    return Stage(
        replicas=replicas,
        requests_per_s=replicas * each_s,
        tokens_per_s=(1 - ROOM) * replicas * each_s * target.output_mean,
        ttft_p99_s=_mark(target.slo, "ttft_p99_s", seen.ttft_s.p99),
        tpot_p99_s=_mark(target.slo, "tpot_p99_s", seen.tpot_s.p99),
        predicted_ttft_p99_s=seen.ttft_s.p99,
        predicted_tpot_p99_s=seen.tpot_s.p99,
    )


def _mark(slo: SLO, name: str, predicted: float | None) -> float | None:
    """The prediction with room for its error; the SLO where that is stricter or nothing was predicted."""
    limit: float | None = getattr(slo, name)
    if predicted is None:
        return limit
    return (1 + ROOM) * predicted if limit is None else min(limit, (1 + ROOM) * predicted)
