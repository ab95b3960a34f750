"""Simulate a scenario: a whole cluster in virtual time, on one core, exact to the step."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from random import Random
from typing import Any

import numpy as np
from numba import config, typeof, types

from kilocard import facts
from kilocard.cluster.books import CUT, Note
from kilocard.cluster.build import guess_rows, lay_out, owned
from kilocard.cluster.calendar import Calendar
from kilocard.cluster.engines import Fleet, fleet_of, make_engines, slow_down
from kilocard.cluster.ground import ENDED, LOOK_PS, Ground
from kilocard.cluster.hands import Hands
from kilocard.cluster.life import Life
from kilocard.cluster.loading import Loading
from kilocard.cluster.loop import BUSY, CROWDED, TOLD, run_cluster
from kilocard.cluster.scaling import Scaling
from kilocard.cluster.site import places_of
from kilocard.cluster.traffic import Asked, draw
from kilocard.cluster.trouble import Trouble
from kilocard.cluster.watch import Watch
from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS, compiled_entry
from kilocard.engine_model.state import PATH, Engines, Tables, grown_entries, new_entries, table
from kilocard.errors import KilocardError
from kilocard.facts import parts
from kilocard.facts.dtypes import weight_dtype
from kilocard.fleet.build import FEW_ENTRIES, requests_of
from kilocard.fleet.loop import Agenda, new_agenda
from kilocard.routing.budget import RetryRule
from kilocard.routing.health import Ending, HealthRule
from kilocard.routing.own import faults_of
from kilocard.routing.own_file import policy_at
from kilocard.routing.policies import POLICIES, POLICY_TYPE, compile_policy
from kilocard.routing.replicas import Policy
from kilocard.routing.slow import SlowRule
from kilocard.specs.cluster import ClusterSpec
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
        slow_rule=rules_of(spec)[1],
    )
    _assign(ground, asked, scenario)
    chosen = policy_at(spec.gateway.policy) if policy is None else policy
    compiled = _compiled(POLICIES[chosen] if isinstance(chosen, str) else chosen)
    hands, life, watch, trouble, calendar = _keepers(scenario, fleet, engines, agenda, ground, compiled)
    loop = _loop(*(typeof(each) for each in (engines, agenda, ground)))
    began = time.perf_counter()
    end_ps = _run(loop, hands, watch, trouble, life, calendar, most_steps, last_s, progress)
    wall_s = time.perf_counter() - began
    events = sorted([*watch.events, *life.events])
    node = trouble.places.first
    return Outcome(
        scenario, fleet, hands.engines, ground, asked, node, tuple(events), wall_s, end_ps / PICOSECONDS
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


def _keepers(
    scenario: Scenario, fleet: Fleet, engines: Engines, agenda: Agenda, ground: Ground, policy: Policy
) -> tuple[Hands, Life, Watch, Trouble, Calendar]:
    spec, calendar = scenario.cluster, Calendar()
    gateways = ground.shape.gateways
    parts = owned(gateways, fleet.caps.tolist())
    hands = Hands(
        policy,
        engines,
        agenda,
        ground,
        usual=engines.replicas.copy(),
        retry_rule=RetryRule(share=spec.gateway.retries.budget, most=spec.gateway.retries.most),
        owned=(parts > 0) | (fleet.caps == 0),
        weights=np.ones(len(fleet.pool)),
        caps=fleet.caps,
    )
    watch = Watch(spec, hands, calendar, *rules_of(spec), spec.gateway.health.probe.timeout_s)
    storage = scenario.storage
    life = Life(
        spec,
        hands,
        watch,
        calendar,
        Loading(storage.gb_per_s * 1e9, storage.node_gb_per_s * 1e9),
        storage.boot_s,
        [weights_bytes(spec, p, fleet) for p in range(len(spec.pools))],
        scenario.begins_at_minute,
        Random(scenario.seed),
    )
    trouble = Trouble(
        hands,
        watch,
        life,
        calendar,
        places_of(spec, fleet, scenario.site),
        spec.gateway.timeouts.between_chunks_s,
    )
    trouble.plan(scenario.faults)
    names = [pool.name for pool in spec.pools]
    for its in scenario.changes:
        p = names.index(its.pool)
        if its.restart:
            calendar.at_s(its.at_s, partial(life.restart, p))
        else:
            calendar.at_s(its.at_s, partial(life.change, p, its.version, its.times))
    if scenario.scale_by != "none":
        Scaling(scenario, hands, life, calendar).begin()
    return hands, life, watch, trouble, calendar


def rules_of(spec: ClusterSpec) -> tuple[HealthRule, SlowRule]:
    """As the gateway takes them from its section."""
    own = spec.gateway.health
    health = HealthRule(
        most_failures=own.failures,
        most_misses=own.probe.failures,
        good_probes=own.probe.successes,
        interval_s=own.probe.every_s * spec.gateway.gateways,
    )
    slow = own.slow
    return health, SlowRule(
        ratio=slow.ratio,
        recovered_ratio=slow.recovered_ratio,
        floor_s=slow.floor_s,
        hold_s=slow.hold_s,
        calm_s=slow.calm_s,
        share=slow.share,
        most_share=slow.most_share,
    )


def weights_bytes(spec: ClusterSpec, p: int, fleet: Fleet) -> float:
    """What one engine of a pool loads: as the file says, else what its model weighs."""
    pool, case = spec.pools[p], fleet.cases[p]
    told = spec.weights_of(pool).size_gb
    if told:
        return float(told) * 1e9
    return float(parts.weights_bytes(facts.model(case.model), weight_dtype(case.weights)))


def _run(
    loop: Any,
    hands: Hands,
    watch: Watch,
    trouble: Trouble,
    life: Life,
    calendar: Calendar,
    most_steps: int,
    last_s: float,
    progress: Callable[[int, int], None] | None,
) -> int:
    """Slice after slice, up to the next thing that is to be done outside the loop."""
    ground, agenda = hands.ground, hands.agenda
    end_ps = round((last_s + LONGEST_AFTER_S) * PICOSECONDS)
    total = len(hands.engines.tables.requests)
    while True:
        until_ps = min(calendar.next_ps, end_ps)
        with nullcontext() if config.DISABLE_JIT else faults_of(hands.policy):
            why = loop(hands.policy, hands.engines, agenda, ground, most_steps, SLICE_EVENTS, until_ps)
        if why == CROWDED:
            tables = hands.engines.tables
            hands.engines = hands.engines._replace(
                tables=tables._replace(entries=grown_entries(tables.entries))
            )
        elif why == TOLD:
            _listen(hands, watch, trouble, life)
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


def _listen(hands: Hands, watch: Watch, trouble: Trouble, life: Life) -> None:
    """What the loop has left to do."""
    ground, requests = hands.ground, hands.engines.tables.requests
    count = int(ground.notes.ends[0])
    told = ground.notes.rows[:count].tolist()
    ground.notes.ends[0] = 0
    for what, which, who in told:
        match Note(what):
            case Note.SLOW:
                watch.judged(which, who, int(ground.counts[LOOK_PS]))
            case Note.LATE:
                trouble.late(which, int(ground.counts[LOOK_PS]))
            case Note.REFUSED:
                g, sent_ps = int(ground.books.gateway[which]), int(ground.books.sent_ps[which])
                watch.request_ended(g, who, Ending.REFUSED, sent_ps, sent_ps)
                hands.fail(which, CUT, sent_ps)
            case Note.ENDED:
                g = who // ground.shape.engines
                last_ps = int(requests[which].last_ps)
                sent_ps = int(ground.books.sent_ps[which])
                watch.request_ended(g, who % ground.shape.engines, Ending.OK, sent_ps, last_ps)
            case Note.TRIED:
                place_on_a_side(hands, life, which)


def place_on_a_side(hands: Hands, life: Life, request: int) -> None:
    """While a canary is tried, a share of the requests is for it and the rest is not."""
    ground, asked = hands.ground, hands.engines.tables.requests[request]
    own = life.spec.lifecycle.canary
    g, p = int(ground.books.gateway[request]), int(ground.books.home[request])
    begin, end = (int(it) for it in ground.shape.begins[p : p + 2])
    canaries = set(life.canary_engines(p))
    for_canary = own is not None and life.chance.random() < own.share
    sides = {True: [r for r in range(begin, end) if r in canaries]}
    sides[False] = [r for r in range(begin, end) if r not in canaries]
    weight, at = ground.views.columns.weight, g * ground.shape.engines
    barred = [at + r for r in sides[not for_canary]]
    if any(weight[at + r] > 0 for r in sides[for_canary]):
        kept = weight[barred].copy()
        weight[barred] = 0.0
        hands.place(request, int(asked.arrival_ps))
        weight[barred] = kept
    else:
        hands.place(request, int(asked.arrival_ps))


@lru_cache(maxsize=64)
def _compiled(policy: Policy) -> Policy:
    return compile_policy(policy)


@lru_cache(maxsize=1)
def _loop(*tables: types.Type) -> Any:
    """The loop, compiled before any clock starts."""
    return compiled_entry(run_cluster, types.int64(POLICY_TYPE, *tables, *[types.int64] * 3))
