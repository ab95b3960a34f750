"""Simulate a scenario: a whole cluster in virtual time, on one core, exact to the step."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numba import config, typeof, types

from kilocard import facts
from kilocard.cluster.build import guess_rows, lay_out
from kilocard.cluster.crew import Crew, crew_of
from kilocard.cluster.engines import Fleet, fleet_of, make_engines, slow_down
from kilocard.cluster.ground import ENDED, LOOK_PS, Ground
from kilocard.cluster.hands import Hands
from kilocard.cluster.listening import listen
from kilocard.cluster.loop import BUSY, CROWDED, TOLD, run_cluster
from kilocard.cluster.traffic import Asked, draw
from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS, compiled_entry
from kilocard.engine_model.state import PATH, Engines, Tables, grown_entries, new_entries, table
from kilocard.errors import KilocardError
from kilocard.fleet.build import FEW_ENTRIES, requests_of
from kilocard.fleet.loop import new_agenda
from kilocard.gateway.rules import slow_rule
from kilocard.routing.own import faults_of
from kilocard.routing.own_file import policy_at
from kilocard.routing.policies import POLICIES, POLICY_TYPE, compile_policy
from kilocard.routing.replicas import Policy
from kilocard.specs.scenario import Scenario

SLICE_EVENTS = 2_000_000
ALL_STEPS = 2**40
LONGEST_AFTER_S = 86_400.0
"""After the last arrival: what has not ended by then is in flight."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulation left behind: its tables, what happened when, and the seconds that it took."""

    scenario: Scenario
    fleet: Fleet
    engines: Engines
    ground: Ground
    asked: Asked
    node: Any
    events: tuple[tuple[float, str, str], ...]
    wall_s: float
    end_s: float


def simulate_scenario(
    scenario: Scenario,
    policy: Policy | None = None,
    progress: Callable[[int, int], None] | None = None,
    most_steps: int = ALL_STEPS,
) -> Outcome:
    """Run the traffic through the cluster, with all that befalls it; `wall_s` counts the loop alone."""
    spec = scenario.cluster
    fleet, asked = fleet_of(spec, scenario.calibration), draw(scenario)
    requests = requests_of(asked.traffic)
    engines = _engines(fleet, asked, requests, scenario)
    agenda = new_agenda(requests, len(engines.replicas), closed_loop=False)
    last_s = float(np.where(requests.arrival_ps < NEVER_PS, requests.arrival_ps, 0).max()) / PICOSECONDS
    ground = lay_out(
        spec,
        fleet,
        engines,
        request_s=fleet.request_s,
        sample_s=scenario.sample_s,
        until_s=last_s + 3600,
        seed=scenario.seed,
        slow_rule=slow_rule(spec),
    )
    _assign(ground, asked, scenario)
    chosen = policy_at(spec.gateway.policy) if policy is None else policy
    compiled = _compiled(POLICIES[chosen] if isinstance(chosen, str) else chosen)
    crew = crew_of(scenario, fleet, engines, agenda, ground, compiled)
    loop = _loop(*(typeof(each) for each in (engines, agenda, ground)))
    began = time.perf_counter()
    end_ps = _run(loop, crew, most_steps, last_s, progress)
    wall_s = time.perf_counter() - began
    return Outcome(
        scenario,
        fleet,
        crew.hands.engines,
        ground,
        asked,
        crew.trouble.places.first,
        tuple(sorted([*crew.watch.events, *crew.life.events])),
        wall_s,
        end_ps / PICOSECONDS,
    )


def _engines(fleet: Fleet, asked: Asked, requests: Any, scenario: Scenario) -> Engines:
    own = asked.traffic.paths
    paths = table(max(len(own.streams), 1), PATH)
    paths.stream[: len(own.streams)] = own.streams
    paths.end_tokens[: len(own.streams)] = own.end_tokens
    _require_fits(fleet, asked)
    names = max(
        case.engine.max_num_batched_tokens // case.engine.block_size + 2 * case.engine.max_num_seqs
        for case in fleet.cases
    )
    engines = make_engines(fleet, Tables(requests, paths, new_entries(FEW_ENTRIES + 4 * names)))
    if scenario.variance > 0:
        spread = np.sqrt(np.log1p(scenario.variance**2))
        rng = np.random.default_rng((scenario.seed, 1))
        for r, times in enumerate(np.exp(rng.normal(-(spread**2) / 2, spread, len(engines.replicas)))):
            slow_down(engines.replicas[r], engines.replicas[r].copy(), float(times))
    return engines


def _require_fits(fleet: Fleet, asked: Asked) -> None:
    """Refuse what the engines of a pool would refuse."""
    tokens = asked.traffic.prompt_tokens + asked.traffic.output_tokens
    for p, case in enumerate(fleet.cases):
        mine = tokens[asked.home == p]
        limit = case.engine.max_model_len or facts.model(case.model).max_context_tokens
        if len(mine) and limit and mine.max() > limit:
            raise KilocardError(
                f"a request of {mine.max()} tokens is over the context of {limit} of {case.model}: shorten "
                "it, or raise max_model_len"
            )


def _assign(ground: Ground, asked: Asked, scenario: Scenario) -> None:
    """Each request's gateway, as the balancer before them spreads connections; its pool; its row of
    guesses."""
    rng = np.random.default_rng((scenario.seed, 2))
    count = len(ground.books.home)
    ground.books.gateway[:] = rng.integers(0, ground.shape.gateways, count)
    ground.books.home[:] = asked.home
    ground.books.guess_row[:] = guess_rows(asked.traffic.output_tokens)


def _run(
    loop: Any, crew: Crew, most_steps: int, last_s: float, progress: Callable[[int, int], None] | None
) -> int:
    """Slice after slice, up to the next thing that is to be done outside the loop."""
    hands, calendar, ground = crew.hands, crew.calendar, crew.hands.ground
    end_ps = round((last_s + LONGEST_AFTER_S) * PICOSECONDS)
    total = len(hands.engines.tables.requests)
    while True:
        until_ps = min(calendar.next_ps, end_ps)
        with nullcontext() if config.DISABLE_JIT else faults_of(hands.policy):
            why = loop(hands.policy, hands.engines, hands.agenda, ground, most_steps, SLICE_EVENTS, until_ps)
        if why == CROWDED:
            tables = hands.engines.tables
            hands.engines = hands.engines._replace(
                tables=tables._replace(entries=grown_entries(tables.entries))
            )
        elif why == TOLD:
            listen(crew)
        elif why == BUSY:
            if progress:
                progress(int(ground.counts[ENDED]), total)
        else:
            if _is_over(hands):
                return int(ground.counts[LOOK_PS])
            if until_ps >= end_ps:
                return end_ps
            calendar.do_due(until_ps)
        if why != CROWDED and _is_over(hands):
            return int(ground.counts[LOOK_PS])


def _is_over(hands: Hands) -> bool:
    agenda, counts = hands.agenda, hands.ground.counts
    return (
        int(agenda.counts[0]) == len(agenda.arrivals)
        and int(agenda.followers.length[0]) == 0
        and int(counts[0]) == int(counts[ENDED])
    )


@lru_cache(maxsize=64)
def _compiled(policy: Policy) -> Policy:
    return compile_policy(policy)


@lru_cache(maxsize=1)
def _loop(*tables: types.Type) -> Any:
    """The loop, compiled before any clock starts."""
    return compiled_entry(run_cluster, types.int64(POLICY_TYPE, *tables, *[types.int64] * 3))
