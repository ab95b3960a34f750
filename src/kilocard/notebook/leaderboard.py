"""Routing policies in order: scored on traffic that they were made on, and on traffic held out from them.

All in virtual time, and all seeded: the same policy has the same score on every box.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import mean, stdev
from typing import Any

import pandas as pd

from kilocard.engine_model.calibration import calibration_of_case
from kilocard.errors import KilocardError
from kilocard.fleet.result import as_run
from kilocard.fleet.simulate import simulate_traffic
from kilocard.fleet.traffic import Traffic as DrawnTraffic
from kilocard.fleet.traffic import draw_traffic
from kilocard.record import Run
from kilocard.routing.own import name_of
from kilocard.routing.policies import POLICIES, REFERENCE
from kilocard.routing.replicas import Policy
from kilocard.specs.case import Case, case_from
from kilocard.stats import e2e_s, is_good, quantiles, tpot_s, ttft_s

TRAINING_SEED = 1
HELD_OUT_SEEDS = (101, 102, 103)
SEALED_SEEDS = (201, 202, 203)
"""For the end: who has looked at held-out traffic while making a policy has made it on that, too."""
REQUESTS = 2000
TTFT_S, TPOT_S = 0.3, 0.02
"""The promise that goodput is counted against."""

FLEET = {"model": "llama-3.1-8b", "card": "h100-sxm", "replicas": 8, "engine": {"max_num_seqs": 64}}
MIXED = {
    "prompt_tokens": {"kind": "lognormal", "mean_tokens": 800, "cv": 1.5, "most_tokens": 8000},
    "output_tokens": {"kind": "lognormal", "mean_tokens": 250, "cv": 1.5, "most_tokens": 3000},
}
CHAT = {
    **MIXED,
    "prompt_tokens": {"kind": "heavy_tail", "least_tokens": 2100, "alpha": 3, "most_tokens": 6000},
    "system_prompts": {"count": 400, "tokens": 2048},
}


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """A setting: a fleet, what it is asked, and the seeds by which that is drawn."""

    name: str
    case: Case
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """What a policy made of one traffic; the percentiles are of all its seeds' requests together, and None
    where these are too few."""

    within: tuple[float, ...]
    """Of each seed, the share of requests within the promise."""
    ttft_p99_s: float | None
    tpot_p99_s: float | None
    e2e_p99_s: float | None

    @property
    def goodput(self) -> float:
        """The share of requests within the promise, averaged over the seeds."""
        return mean(self.within)


@dataclass(frozen=True, slots=True)
class Standing:
    """One policy's line of the leaderboard."""

    policy: str
    training: Score
    held_out: Mapping[str, Score]
    """By the traffic's name."""

    @property
    def goodput(self) -> float:
        """Of the held-out traffic, each setting counting alike."""
        return mean(score.goodput for score in self.held_out.values())

    @property
    def ttft_p99_s(self) -> float | None:
        """In the worst of the held-out settings."""
        return _worst(score.ttft_p99_s for score in self.held_out.values())

    @property
    def tpot_p99_s(self) -> float | None:
        """In the worst of the held-out settings."""
        return _worst(score.tpot_p99_s for score in self.held_out.values())


@dataclass(frozen=True, slots=True)
class Margin:
    """By how much one policy keeps the promise more often than another, drawn on the same traffic."""

    percent: float
    """On average over held-out runs; negative where it is worse."""
    error_percent: float
    """The standard error of that average over seeds, the settings being what they are."""
    won: int
    runs: int

    @property
    def beats(self) -> bool:
        """Whether it is ahead by more than twice the standard error."""
        return self.percent > 2 * self.error_percent


def a_case(rate_per_s: float, asked: Mapping[str, Any], **fleet: Any) -> Case:
    """The leaderboard's fleet under its promise, with some things changed."""
    workload = {"requests": REQUESTS, "rate_per_s": rate_per_s, **asked}
    promise = {"ttft_s": TTFT_S, "tpot_s": TPOT_S}
    return case_from({**FLEET, **fleet, "slo": promise, "workload": workload}, "the leaderboard")


STEADY = a_case(135, MIXED)
TRAINING = Traffic("training", STEADY, (TRAINING_SEED,))
HELD_OUT = (
    Traffic("other seeds", STEADY, HELD_OUT_SEEDS),
    Traffic("bursts", a_case(115, {**MIXED, "arrivals": "gamma", "cv": 4}), HELD_OUT_SEEDS),
    Traffic("one slow", a_case(105, MIXED, slow={0: 4.0}), HELD_OUT_SEEDS),
    Traffic("shared prefixes", a_case(50, CHAT), HELD_OUT_SEEDS),
)
SEALED = tuple(replace(it, seeds=SEALED_SEEDS) for it in HELD_OUT)


def leaderboard(own: Iterable[Policy] = (), shipped: Iterable[str] = tuple(POLICIES)) -> list[Standing]:
    """The shipped policies and one's own, the one that keeps the promise most often on held-out traffic
    first."""
    entered: list[str | Policy] = [*shipped, *own]
    rows = [standing(policy) for policy in entered]
    return sorted(rows, key=lambda row: row.goodput, reverse=True)


def standing(policy: str | Policy, *, sealed: bool = False) -> Standing:
    """One policy's line: a shipped one by its name, or a function of one's own."""
    name = policy if isinstance(policy, str) else name_of(policy)
    held_out = SEALED if sealed else HELD_OUT
    return Standing(name, score(policy, TRAINING), {it.name: score(policy, it) for it in held_out})


@lru_cache(maxsize=1024)
def score(policy: str | Policy, traffic: Traffic) -> Score:
    """What a policy makes of a traffic; asked again, it need not be simulated again."""
    runs = [_run(policy, traffic, seed) for seed in traffic.seeds]
    slo = traffic.case.slo
    if slo is None:
        raise KilocardError(f"traffic {traffic.name} has no slo: goodput counts requests within one")
    together = pd.concat([run.requests for run in runs], ignore_index=True)
    return Score(
        tuple(float(is_good(run.requests, slo).mean()) for run in runs),
        *(quantiles(values(together)).p99 for values in (ttft_s, tpot_s, e2e_s)),
    )


def margin(ours: Standing, theirs: Standing) -> Margin:
    """Our share within the promise over theirs, run by run, on held-out traffic."""
    ratios = [
        [mine / its - 1 for mine, its in zip(score.within, theirs.held_out[name].within, strict=True)]
        for name, score in ours.held_out.items()
    ]
    by_seed = [mean(column) for column in zip(*ratios, strict=True)]
    flat = [ratio for row in ratios for ratio in row]
    error = stdev(by_seed) / len(by_seed) ** 0.5 if len(by_seed) > 1 else 0.0
    return Margin(100 * mean(flat), 100 * error, sum(ratio > 0 for ratio in flat), len(flat))


def against_the_reference(policy: str | Policy, *, sealed: bool = False) -> Margin:
    """By how much a policy beats the gateway's own on held-out traffic, or on that of the sealed seeds."""
    return margin(standing(policy, sealed=sealed), standing(REFERENCE, sealed=sealed))


def best_on_training(policies: Sequence[Policy]) -> Policy:
    """The one that somebody picks who has looked at the training traffic alone."""
    return max(policies, key=lambda policy: score(policy, TRAINING).goodput)


def _worst(seconds: Iterable[float | None]) -> float | None:
    return max((it for it in seconds if it is not None), default=None)


@lru_cache(maxsize=1024)
def _drawn(traffic: Traffic, seed: int) -> DrawnTraffic:
    """The requests of a traffic, which are the same for every policy."""
    return draw_traffic(traffic.case.workload, seed)


def _run(policy: str | Policy, traffic: Traffic, seed: int) -> Run:
    named, own = (policy, None) if isinstance(policy, str) else (REFERENCE, policy)
    case = traffic.case.model_copy(update={"seed": seed, "policy": named})
    found = calibration_of_case(case)
    return as_run(case, simulate_traffic(case, _drawn(traffic, seed), found, own), found)
