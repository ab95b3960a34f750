"""What a replica of a large cluster gives within its promise, one condition changed at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kilocard.cluster.result import as_run
from kilocard.cluster.simulate import simulate_scenario
from kilocard.notebook.planned import shipped_target
from kilocard.planning.candidate import OFF, Candidate, scenario_for
from kilocard.planning.trial import Trials
from kilocard.planning.waterfall import MANY, borne
from kilocard.specs.demand import Distribution
from kilocard.specs.target import Target
from kilocard.stats import tpot_s

ANSWERS = Distribution(kind="lognormal", mean_tokens=200, cv=1, most_tokens=2000)
REPLICA = Candidate("h100-sxm", "bf16", 1, 256, 2048)
WARM_S, LASTS_S = 40.0, 40.0
BLIND = {"health": {"slow": {"ratio": 100, "recovered_ratio": 99}}}
"""A gateway that never finds anybody slow."""


def million(**slo: float) -> Target:
    """A million tokens/s of the 8B, with answers as uneven as answers are; by another promise where it is
    given."""
    target = shipped_target("million-tokens").model_copy(update={"output_tokens": ANSWERS})
    return target.model_copy(update={"slo": target.slo.model_copy(update=slo)})


def in_bursts(target: Target, cv: float) -> Target:
    """The same load, its gaps with another coefficient of variation."""
    return target.model_copy(update={"traffic": target.traffic.model_copy(update={"arrivals_cv": cv})})


def ideal_tokens_per_s(target: Target, replica: Candidate = REPLICA) -> float:
    """A replica's, in closed form, were its requests to come as they go."""
    return Trials(target).bound_per_s(replica) * target.output_mean / OFF


def share_borne(
    target: Target, ideal: float, replica: Candidate = REPLICA, policy: str | None = None, **changes: Any
) -> float:
    """Of the ideal, what a replica among a hundred bears within the promise."""
    tried = replica if policy is None else replace(replica, policy=policy)
    return borne(target, tried, near=0.9 * ideal, **changes) / ideal


@dataclass(frozen=True, slots=True)
class SlowSeen:
    """What a promise comes to with some replicas slow, what it would be without their requests, and how many
    of all went to them."""

    tpot_p99_s: float
    healthy_p99_s: float
    share_of_slow: float


def seen_at(
    target: Target, requests_per_s: float, *, policy: str, faults: list[dict[str, Any]], **changes: Any
) -> SlowSeen:
    """A hundred replicas under so many requests a second each, from the moment when they are warm."""
    scenario = scenario_for(
        target,
        replace(REPLICA, policy=policy),
        MANY,
        MANY * requests_per_s,
        duration_s=WARM_S + LASTS_S,
        faults=faults,
        **changes,
    )
    ok = as_run(simulate_scenario(scenario)).ok
    ok = ok[ok["sent_s"] > WARM_S]
    slow = ok["replica"].isin([fault["replica"] for fault in faults])
    paces = tpot_s(ok)
    return SlowSeen(float(paces.quantile(0.99)), float(paces[~slow].quantile(0.99)), float(slow.mean()))
