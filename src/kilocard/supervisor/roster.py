"""Which slots a cluster file asks for: its engines, its gateways, and the balancer before them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kilocard.deploy.haproxy import render
from kilocard.deploy.haproxy_process import haproxy_path
from kilocard.lifecycle import Change, RollRule, Rules, Slot, propose
from kilocard.specs.cluster import ClusterSpec
from kilocard.specs.cluster.agreements import GATEWAY
from kilocard.supervisor.recipe import Recipe, recipe_of
from kilocard.supervisor.state import Held, State

GATEWAYS, BALANCER = ":gateways", ":balancer"
"""Pools of programs that are no engines: no pool of a file can be called so."""


KILL_MARGIN_S = 60.0
"""A guard that has not ended its program by then does so no more."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A slot that a file asks for."""

    name: str
    pool: str
    port: int


@dataclass(frozen=True, slots=True)
class Settings:
    """What the slots of a pool shall run, and whether a change is tried on a few first."""

    pool: str
    digest: str
    recipe: Recipe | None
    has_canary: bool


@dataclass(frozen=True, slots=True)
class Roster:
    """What a reading of a file asks for: worked out once, and followed at each look."""

    seats: dict[str, Seat]
    settings: tuple[Settings, ...]


def seats(spec: ClusterSpec) -> Iterator[Seat]:
    """Engines first: what stands before them is started later, and ended earlier."""
    for pool in spec.pools:
        for k in range(pool.count or 0):
            yield Seat(f"{pool.name}-{k}", pool.name, (pool.port or 0) + k)
    for k in range(spec.gateway.gateways):
        yield Seat(f"{GATEWAY}-{k}", GATEWAYS, spec.gateway.port + k)
    if has_balancer(spec):
        yield Seat("haproxy", BALANCER, spec.balancer.port)


def pool_of(name: str) -> str:
    """The pool of a slot that is called so."""
    if name == "haproxy":
        return BALANCER
    pool = name.rpartition("-")[0]
    return GATEWAYS if pool == GATEWAY else pool


def has_balancer(spec: ClusterSpec) -> bool:
    """Whether HAProxy is started before several gateways: where it is installed."""
    return spec.gateway.gateways > 1 and haproxy_path() is not None


def roster_of(spec: ClusterSpec, *, is_emulated: bool) -> Roster:
    """Of a file."""
    return Roster({seat.name: seat for seat in seats(spec)}, tuple(_settings(spec, is_emulated)))


def follow(roster: Roster, state: State, now_s: float) -> None:
    """Make the slots those that are asked for, and set each pool on its way to its settings.

    A slot that is asked for no longer wants nothing; one whose port has moved is started anew.
    """
    for name, held in state.held.items():
        if name not in roster.seats:
            held.slot = held.slot.wanting("")
    for its in roster.settings:
        if its.recipe:
            state.recipes[its.digest] = its.recipe
        before = state.changes.get(its.pool) or Change(its.digest, since_s=now_s)
        state.changes[its.pool] = propose(before, its.digest, its.has_canary, now_s)
    for seat in roster.seats.values():
        held = state.held.get(seat.name) or Held(Slot(seat.name, seat.pool), seat.port)
        state.held[seat.name] = held
        if not held.slot.wants:
            held.slot = held.slot.wanting(state.changes[seat.pool].target)
        if held.port != seat.port and is_free(state, seat.port, but=held):
            _move(held, seat.port)


def is_free(state: State, port: int, but: Held) -> bool:
    """Whether no other slot has a port: one that is to have it waits until the other has moved."""
    return not any(it.port == port and it is not but and it.slot.runs for it in state.held.values())


def _move(held: Held, port: int) -> None:
    if held.slot.runs:
        held.slot = replace(held.slot, is_due=True)
    else:
        held.port = port


def rules_of(spec: ClusterSpec) -> Rules:
    """Of one slot."""
    its = spec.lifecycle
    return Rules(
        ready_within_s=its.ready.within_s,
        drain_s=its.drain_s,
        back_off_s=its.crashes.back_off_s,
        most_back_off_s=its.crashes.most_back_off_s,
        most_deaths=its.crashes.most,
        deaths_within_s=its.crashes.within_s,
        most_stop_s=its.drain_s + its.stop_s + KILL_MARGIN_S,
    )


def roll_rule_of(spec: ClusterSpec, pool: str) -> RollRule:
    """Of one pool."""
    roll = spec.lifecycle.roll
    warm = next((it.min_warm for it in spec.pools if it.name == pool), 0)
    return RollRule(roll.share, roll.verify_s if warm or pool[0] != ":" else 1.0, warm)


def canaries_of(spec: ClusterSpec) -> int:
    """Replicas on which a change is tried."""
    return spec.lifecycle.canary.replicas if spec.lifecycle.canary else 0


def _settings(spec: ClusterSpec, is_emulated: bool) -> Iterator[Settings]:
    for pool in spec.pools:
        if pool.count:
            recipe = recipe_of(spec, pool, is_emulated=is_emulated)
            yield Settings(pool.name, recipe.digest, recipe, canaries_of(spec) in range(1, pool.count))
    yield Settings(GATEWAYS, _digest_of_gateways(spec), None, False)
    if has_balancer(spec):
        yield Settings(BALANCER, _digest(render(spec)), None, False)


def _digest_of_gateways(spec: ClusterSpec) -> str:
    """What a running gateway cannot take up."""
    own = spec.gateway
    doors = {"host": own.host, "port": own.port, "gateways": own.gateways}
    admin = {"host": own.admin.host, "port": own.admin.port}
    return _digest(json.dumps([doors, admin, own.metrics.model_dump()]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
