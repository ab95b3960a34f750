"""Simulate a case: virtual time, one core, exact to the step."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numba import config, typeof, types
from numpy.typing import NDArray

from kilocard.engine_model.calibration import Calibration
from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS, compiled_entry
from kilocard.engine_model.state import NOBODY, Engines, grown_entries
from kilocard.engine_model.step_time import StepTime
from kilocard.errors import KilocardError, near_match
from kilocard.fleet.build import build
from kilocard.fleet.desk import Desk, new_desk
from kilocard.fleet.loop import CROWDED, REACHED, Agenda, run_events
from kilocard.fleet.traffic import Traffic
from kilocard.routing.chance import new_random
from kilocard.routing.own import faults_of, name_of, plain_function, watched
from kilocard.routing.policies import POLICIES, POLICY_TYPE, compile_policy, looks_beyond_counts
from kilocard.routing.replicas import Policy, Replicas, new_replicas
from kilocard.specs.case import Case

FIRST_SLICE = 20_000
SLICE_S = 0.2
"""Events, then seconds, between two looks outside: at a progress bar, at an interrupt."""
ALL_STEPS = 2**40


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a simulation left behind: the engines and requests at its end, the seconds it took, and how long
    engines had been busy (in all, in ps) when each stage began and when the last one ended."""

    engines: Engines
    traffic: Traffic
    wall_s: float
    begins_ps: tuple[int, ...]
    busy_ps: tuple[int, ...]


def simulate_traffic(
    case: Case,
    traffic: Traffic,
    calibration: Calibration,
    policy: Policy | None = None,
    progress: Callable[[int], None] | None = None,
    most_steps: int = ALL_STEPS,
    step: StepTime | None = None,
) -> Simulated:
    """Run the traffic through the case's engines; `wall_s` counts the loop alone, compilation apart.

    `step` stands in for the step time that the case's card gives: of a box that no datasheet describes.
    """
    chosen = _policy(case, policy)
    engines, agenda = build(case, traffic, calibration, step)
    replicas, random = new_replicas(len(engines.replicas)), new_random(case.seed)
    replicas.cap[:] = case.cap or 0
    keeps = case.cap is not None or looks_beyond_counts(policy or POLICIES[case.policy])
    desk = new_desk(engines.tables.requests, len(engines.replicas), keeps)
    begins_ps = _stage_begins_ps(traffic)
    loop = _loop(*(typeof(table) for table in (engines, agenda, desk, replicas, random)))
    began, busy_ps = time.perf_counter(), []
    for until_ps in (*begins_ps, NEVER_PS):
        run = (chosen, engines, agenda, desk, replicas, random, most_steps, until_ps)
        engines = _run_until(loop, *run, progress)
        busy_ps.append(busy_until_ps(engines, until_ps))
    wall_s = time.perf_counter() - began
    if int(agenda.counts[2]) < len(traffic):
        raise KilocardError(_unanswered(name_of(policy or case.policy), engines, int(agenda.counts[2])))
    return Simulated(engines, traffic, wall_s, begins_ps, tuple(busy_ps))


def _run_until(
    loop: Any,
    policy: Any,
    engines: Engines,
    agenda: Agenda,
    desk: Desk,
    replicas: Replicas,
    random: Any,
    most_steps: int,
    until_ps: int,
    progress: Any,
) -> Engines:
    """Slice after slice, up to a time; the KV caches' table grows when it runs short."""
    events = FIRST_SLICE
    while True:
        began = time.perf_counter()
        with nullcontext() if config.DISABLE_JIT else faults_of(policy):
            stopped = loop(policy, engines, agenda, desk, replicas, random, most_steps, events, until_ps)
        if progress:
            progress(int(agenda.counts[2]))
        if stopped == REACHED:
            return engines
        if stopped == CROWDED:
            tables = engines.tables._replace(entries=grown_entries(engines.tables.entries))
            engines = engines._replace(tables=tables)
        else:
            events = int(events * min(10.0, max(0.1, SLICE_S / (time.perf_counter() - began)))) + 1


def _stage_begins_ps(traffic: Traffic) -> tuple[int, ...]:
    """When the first request of each stage arrives."""
    opens = np.isfinite(traffic.arrival_s)
    stages = np.unique(traffic.stage[opens])
    begins_s = [traffic.arrival_s[opens & (traffic.stage == stage)].min() for stage in stages]
    return tuple(round(begin_s * PICOSECONDS) for begin_s in begins_s)


def busy_until_ps(engines: Engines, now_ps: int) -> int:
    """How long steps have run by now on all engines: the runs that were counted, and the present ones.

    A run is counted when the next plan is made, which may be a step before it ends: that step is taken off.
    """
    replicas = engines.replicas
    runs = (replicas.tokens > 0) & (replicas.run_steps > 0)
    until_ps: NDArray[np.int64] = np.minimum(
        now_ps, np.where(runs, _run_ends_ps(replicas), replicas.run_start_ps)
    )
    return int((replicas.busy_ps + until_ps - replicas.run_start_ps).sum())


def _run_ends_ps(replicas: Any) -> NDArray[np.int64]:
    steps = replicas.run_steps
    ends: NDArray[np.int64] = (
        replicas.run_start_ps + steps * replicas.step_ps + replicas.slope_ps * (steps * (steps - 1) // 2)
    )
    return ends


def _unanswered(policy: str, engines: Engines, done: int) -> str:
    """Why requests have no answer: a policy named nobody, or time was up."""
    requests, count = engines.tables.requests, len(engines.replicas)
    left = f"{len(requests) - done:,} of {len(requests):,} requests have no answer"
    arrived = requests[requests.arrival_ps < NEVER_PS]
    nobody = arrived[(arrived.replica < 0) | (arrived.replica >= count)]
    if not len(nobody):
        return f"{left}: it would come after more than {NEVER_PS // PICOSECONDS // 86_400} simulated days"
    wrong = nobody.replica[nobody.replica != NOBODY]
    named = int(wrong[0]) if len(wrong) else NOBODY
    return (
        f"{left}: the policy {policy} named replica {named} for {len(nobody):,} of them, and there are 0 to "
        f"{count - 1}: let it name one of these"
    )


def _policy(case: Case, given: Policy | None) -> Policy:
    chosen = _named_policy(case) if given is None else plain_function(given)
    if config.DISABLE_JIT:
        return chosen if chosen in POLICIES.values() else watched(chosen)
    return _compiled_policy(chosen)


def _named_policy(case: Case) -> Policy:
    if case.policy not in POLICIES:
        raise KilocardError(f"unknown policy {case.policy!r}: {near_match(case.policy, POLICIES)}")
    if case.workload.priority and case.engine.scheduling_policy == "fcfs":
        raise KilocardError(
            f"priority is of no account to scheduling_policy fcfs and the policy {case.policy}: give the "
            "engine scheduling_policy: priority, or leave priority out"
        )
    return POLICIES[case.policy]


@lru_cache(maxsize=64)
def _compiled_policy(policy: Policy) -> Policy:
    return compile_policy(policy)


@lru_cache(maxsize=1)
def _loop(*tables: types.Type) -> Any:
    """The loop, compiled before any clock starts."""
    return compiled_entry(run_events, types.int64(POLICY_TYPE, *tables, *[types.int64] * 3))
