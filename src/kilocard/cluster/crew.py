"""Who looks after a simulated cluster while its loop runs: hands, watch, life, trouble, scaling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random

import numpy as np

from kilocard import facts
from kilocard.cluster.build import owned
from kilocard.cluster.calendar import Calendar
from kilocard.cluster.engines import Fleet
from kilocard.cluster.ground import Ground
from kilocard.cluster.hands import Hands
from kilocard.cluster.life import Life
from kilocard.cluster.loading import Loading
from kilocard.cluster.processes import Processes
from kilocard.cluster.scaling import Scaling
from kilocard.cluster.site import places_of
from kilocard.cluster.trouble import Trouble
from kilocard.cluster.watch import Watch
from kilocard.engine_model.state import Engines
from kilocard.facts import parts
from kilocard.facts.dtypes import weight_dtype
from kilocard.fleet.loop import Agenda
from kilocard.gateway.rules import health_rule, retry_rule, slow_rule
from kilocard.routing.replicas import Policy
from kilocard.specs.cluster import ClusterSpec
from kilocard.specs.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Crew:
    """All of them, and the calendar that they share."""

    hands: Hands
    watch: Watch
    life: Life
    trouble: Trouble
    calendar: Calendar


def crew_of(
    scenario: Scenario, fleet: Fleet, engines: Engines, agenda: Agenda, ground: Ground, policy: Policy
) -> Crew:
    """With everything that the scenario plans in the calendar."""
    spec, calendar, storage = scenario.cluster, Calendar(), scenario.storage
    hands = _hands(spec, fleet, engines, agenda, ground, policy)
    health = health_rule(spec, spec.gateway.gateways)
    watch = Watch(spec, hands, calendar, health, slow_rule(spec), spec.gateway.health.probe.timeout_s)
    ready = spec.lifecycle.ready
    processes = Processes(
        hands,
        watch,
        calendar,
        Loading(storage.gb_per_s * 1e9, storage.node_gb_per_s * 1e9),
        storage.boot_s,
        ready.every_s * ready.successes,
        [weights_bytes(spec, p, fleet) for p in range(len(spec.pools))],
    )
    life = Life(spec, hands, watch, calendar, processes, scenario.begins_at_minute, Random(scenario.seed))
    places = places_of(spec, fleet, scenario.site)
    trouble = Trouble(hands, watch, life, calendar, places, spec.gateway.timeouts.between_chunks_s)
    trouble.plan(scenario.faults)
    _plan_changes(scenario, life, calendar)
    if scenario.scale_by != "none":
        Scaling(scenario, hands, life, calendar).begin()
    return Crew(hands, watch, life, trouble, calendar)


def _hands(
    spec: ClusterSpec, fleet: Fleet, engines: Engines, agenda: Agenda, ground: Ground, policy: Policy
) -> Hands:
    parts_of_caps = owned(ground.shape.gateways, fleet.caps.tolist())
    return Hands(
        policy,
        engines,
        agenda,
        ground,
        usual=engines.replicas.copy(),
        retry_rule=retry_rule(spec),
        owned=(parts_of_caps > 0) | (fleet.caps == 0),
        weights=np.ones(len(fleet.pool)),
        caps=fleet.caps,
    )


def _plan_changes(scenario: Scenario, life: Life, calendar: Calendar) -> None:
    names = [pool.name for pool in scenario.cluster.pools]
    for its in scenario.changes:
        p = names.index(its.pool)
        if its.restart:
            calendar.at_s(its.at_s, partial(life.restart, p))
        else:
            calendar.at_s(its.at_s, partial(life.change, p, its.version, its.times))


def weights_bytes(spec: ClusterSpec, p: int, fleet: Fleet) -> float:
    """What one engine of a pool loads: as the file says, else what its model weighs."""
    pool, case = spec.pools[p], fleet.cases[p]
    told = spec.weights_of(pool).size_gb
    if told:
        return float(told) * 1e9
    return float(parts.weights_bytes(facts.model(case.model), weight_dtype(case.weights)))
