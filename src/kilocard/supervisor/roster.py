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
from kilocard.supervisor.recipe import Recipe, recipe_of
from kilocard.supervisor.state import Held, State

GATEWAYS, BALANCER = ":gateways", ":balancer"
"""Pools of programs that are no engines: no pool of a file can be called so."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A slot that a file asks for."""

    name: str
    pool: str
    port: int


def seats(spec: ClusterSpec) -> Iterator[Seat]:
    """Engines first: what stands before them is started later, and ended earlier."""
    for pool in spec.pools:
        for k in range(pool.count or 0):
            yield Seat(f"{pool.name}-{k}", pool.name, (pool.port or 0) + k)
    for k in range(spec.gateway.gateways):
        yield Seat(f"gateway-{k}", GATEWAYS, spec.gateway.port + k)
    if has_balancer(spec):
        yield Seat("haproxy", BALANCER, spec.balancer.port)


def has_balancer(spec: ClusterSpec) -> bool:
    """Whether HAProxy is started before several gateways: where it is installed."""
    return spec.gateway.gateways > 1 and haproxy_path() is not None


def follow(spec: ClusterSpec, state: State, *, is_emulated: bool, now_s: float) -> None:
    """Make the slots those that the file asks for, and set each pool on its way to its settings.

    A slot that is asked for no longer wants nothing; one whose port has moved is started anew.
    """
    asked = {seat.name: seat for seat in seats(spec)}
    for name, held in state.held.items():
        if name not in asked:
            held.slot = held.slot.wanting("")
    for pool, settings, has_canary in _settings(spec, state, is_emulated):
        before = state.changes.get(pool)
        change = propose(before, settings, has_canary, now_s) if before else Change(settings, since_s=now_s)
        state.changes[pool] = change
    for seat in asked.values():
        held = state.held.get(seat.name) or Held(Slot(seat.name, seat.pool), seat.port)
        state.held[seat.name] = held
        if not held.slot.wants:
            held.slot = held.slot.wanting(state.changes[seat.pool].target)
        if held.port != seat.port:
            _move(held, seat.port)


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
    )


def roll_rule_of(spec: ClusterSpec, pool: str) -> RollRule:
    """Of one pool."""
    roll = spec.lifecycle.roll
    warm = next((it.min_warm for it in spec.pools if it.name == pool), 0)
    return RollRule(roll.share, roll.verify_s if warm or pool[0] != ":" else 1.0, warm)


def canaries_of(spec: ClusterSpec) -> int:
    """Replicas on which a change is tried."""
    return spec.lifecycle.canary.replicas if spec.lifecycle.canary else 0


def _settings(spec: ClusterSpec, state: State, is_emulated: bool) -> Iterator[tuple[str, str, bool]]:
    for pool in spec.pools:
        if pool.count:
            recipe: Recipe = recipe_of(spec, pool, is_emulated=is_emulated)
            state.recipes[recipe.digest] = recipe
            yield pool.name, recipe.digest, canaries_of(spec) in range(1, pool.count)
    yield GATEWAYS, _digest_of_gateways(spec), False
    if has_balancer(spec):
        yield BALANCER, _digest(render(spec)), False


def _digest_of_gateways(spec: ClusterSpec) -> str:
    """What a running gateway cannot take up."""
    own = spec.gateway
    doors = {"host": own.host, "port": own.port, "gateways": own.gateways}
    admin = {"host": own.admin.host, "port": own.admin.port}
    return _digest(json.dumps([doors, admin, own.metrics.model_dump()]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
