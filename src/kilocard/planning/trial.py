"""How much a candidate bears: the highest load a replica of which the SLO still holds, in simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from kilocard.cluster.simulate import simulate_scenario
from kilocard.cluster.summary import Summary, summary_of
from kilocard.planning.candidate import Candidate, most_tokens_per_s, scenario_for
from kilocard.specs.slo import SLO
from kilocard.specs.target import Target

FLEET = 16
"""Replicas that stand for many: more of them bear no more each."""
STEPS = 50
"""A candidate's rate is found to a fiftieth of its bound."""
REQUESTS = 6000
"""Arrivals of one trial at the least: sixty lie beyond a P99."""
MOST_FAILED = 0.01
"""Requests that may end badly: the promise is to 99 of 100."""
WARM, LASTS = 2.0, 1.5
"""The first requests meet an empty cluster: those of so many mean answers are not counted. What counts lasts
so many times as long at the least, or no line would show."""


@dataclass(slots=True)
class Trials:
    """Simulates a target's candidates, and remembers. `calibrations` are files by card."""

    target: Target
    calibrations: dict[str, str] = field(default_factory=dict)
    fleet: int = FLEET
    changes: dict[str, Any] = field(default_factory=dict)
    simulated: int = 0
    known: dict[tuple[Candidate, int], Summary] = field(default_factory=dict)

    def bound_per_s(self, candidate: Candidate) -> float:
        """Requests a second that no replica of it exceeds."""
        most = most_tokens_per_s(self.target, candidate, self.calibrations.get(candidate.card))
        return most / self.target.output_mean

    def rate(self, candidate: Candidate, step: int) -> float:
        """Requests a second a replica on a step of its ladder."""
        return self.bound_per_s(candidate) * step / STEPS

    def holds(self, candidate: Candidate, step: int) -> bool:
        """Whether the SLO holds there."""
        return step <= 0 or meets(self.target.slo, self.at(candidate, step))

    def at(self, candidate: Candidate, step: int) -> Summary:
        """What comes of that load."""
        key = (candidate, step)
        if key not in self.known:
            self.known[key] = self.seen(candidate, self.fleet, self.fleet * self.rate(candidate, step))
        return self.known[key]

    def seen(self, candidate: Candidate, replicas: int, requests_per_s: float, **changes: Any) -> Summary:
        """So many replicas at that rate, once they are warm."""
        self.simulated += 1
        warm_s = WARM * self._answer_s(candidate)
        told = {**self.changes, **changes}
        scenario = scenario_for(
            self.target,
            candidate,
            replicas,
            requests_per_s,
            duration_s=warm_s + max(REQUESTS / requests_per_s, LASTS * warm_s),
            seed=int(told.pop("seed", self.target.seed)),
            calibration=self.calibrations.get(candidate.card),
            **told,
        )
        return summary_of(simulate_scenario(scenario), since_s=warm_s)

    def _answer_s(self, candidate: Candidate) -> float:
        """About how long an answer takes where the SLO just holds."""
        slo = self.target.slo
        tpot_s = slo.tpot_p99_s or (slo.e2e_p99_s or 60.0) / self.target.output_mean
        return (slo.ttft_p99_s or 0.0) + min(tpot_s, 0.2) * self.target.output_mean

    def highest(self, candidate: Candidate, low: int = 0) -> int:
        """The highest step on which the SLO holds, by bisection, from one on where it is known to hold."""
        return highest_where(lambda step: self.holds(candidate, step), low, STEPS)


def highest_where(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last whole number up to `high` of which something holds that holds at `low` and, once it fails,
    fails for good."""
    if holds(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def highest_near(holds: Callable[[int], bool], guess: int, high: int) -> int:
    """The same, from 0 on, in few tries where the guess is near: steps that double, then bisection."""
    step = 1
    if holds(guess):
        low = guess
        while low < high and holds(min(high, low + step)):
            low, step = min(high, low + step), 2 * step
        return low if low == high or step == 1 else highest_where(holds, low, min(high, low + step) - 1)
    top = guess
    while top - step > 0 and not holds(top - step):
        top, step = top - step, 2 * step
    return highest_where(holds, max(0, top - step), top - 1)


def meets(slo: SLO, its: Summary) -> bool:
    """Whether 99 of 100 requests met each limit, and no more than the hundredth ended badly."""
    if its.arrived == 0 or (its.arrived - its.ok) > MOST_FAILED * its.arrived:
        return False
    limits = (
        (slo.ttft_p99_s, its.ttft_s.p99),
        (slo.tpot_p99_s, its.tpot_s.p99),
        (slo.e2e_p99_s, its.e2e_s.p99),
    )
    return all(limit is None or value is None or value <= limit for limit, value in limits)


def replicas_for(requests_per_s: float, per_replica_s: float) -> int:
    """Whole replicas for a rate."""
    return max(1, ceil(requests_per_s / per_replica_s - 1e-9))
