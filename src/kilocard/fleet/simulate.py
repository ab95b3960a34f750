"""Simulate a case: virtual time, one core, exact to the step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from numba import config, njit, typeof, types

from kilocard.engine_model.calibration import Calibration
from kilocard.engine_model.state import Engines, grown_entries
from kilocard.engine_model.step_time import StepTime
from kilocard.errors import KilocardError, near_match
from kilocard.fleet.build import build
from kilocard.fleet.loop import Agenda, run_events
from kilocard.fleet.traffic import Traffic
from kilocard.routing.chance import new_random
from kilocard.routing.policies import POLICIES, POLICY_TYPE, compile_policy
from kilocard.routing.replicas import Policy, Replicas, new_replicas
from kilocard.specs.case import Case

SLICE = 2_000_000
"""Events between two looks at the clock of the caller: a progress bar, an interrupt."""
ALL_STEPS = 2**40


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a simulation left behind: the engines and requests at its end, and the seconds it took."""

    engines: Engines
    traffic: Traffic
    wall_s: float


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
    engines, agenda = build(case, traffic, calibration, step)
    replicas, random = new_replicas(len(engines.replicas)), new_random(case.seed)
    chosen = _policy(case.policy, policy)
    loop = _loop(engines, agenda, replicas, random)
    began = time.perf_counter()
    engines = _run(loop, chosen, engines, agenda, replicas, random, most_steps, progress)
    return Simulated(engines, traffic, time.perf_counter() - began)


def _run(
    loop: Any,
    policy: Any,
    engines: Engines,
    agenda: Agenda,
    replicas: Replicas,
    random: Any,
    most_steps: int,
    progress: Any,
) -> Engines:
    """Slice after slice, until nothing is left to happen; the KV caches' table grows when it runs short."""
    while True:
        left = loop(policy, engines, agenda, replicas, random, most_steps, SLICE)
        if progress:
            progress(int(agenda.counts[3]))
        if left > 0:
            break
        if left < 0:
            tables = engines.tables._replace(entries=grown_entries(engines.tables.entries))
            engines = engines._replace(tables=tables)
    if agenda.counts[3] < len(engines.tables.requests):
        raise KilocardError(
            f"{len(engines.tables.requests) - agenda.counts[3]} requests found no replica that takes them"
        )
    return engines


def _policy(name: str, given: Policy | None) -> Policy:
    if given is None and name not in POLICIES:
        raise KilocardError(f"unknown policy {name!r}: {near_match(name, POLICIES)}")
    chosen = given or POLICIES[name]
    return chosen if config.DISABLE_JIT else _compiled_policy(chosen)


@lru_cache(maxsize=64)
def _compiled_policy(policy: Policy) -> Policy:
    return compile_policy(policy)


_compiled_loop: list[Any] = []


def _loop(engines: Engines, agenda: Agenda, replicas: Replicas, random: Any) -> Any:
    """The loop in machine code, compiled before any clock starts and kept on disk for the next process."""
    if config.DISABLE_JIT:
        return run_events
    if not _compiled_loop:
        tables = (typeof(value) for value in (engines, agenda, replicas, random))
        signature = types.int64(POLICY_TYPE, *tables, types.int64, types.int64)
        _compiled_loop.append(njit(signature, cache=True, error_model="numpy", _nrt=False)(run_events))
    return _compiled_loop[0]
