"""What the parts of a cluster file must agree on, each in words of its own and at its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kilocard.errors import near_match
from kilocard.specs.cluster.fits import misfits
from kilocard.specs.cluster.overrides import Place
from kilocard.specs.cluster.pools import LENDING, Pool, first_double

if TYPE_CHECKING:
    from kilocard.specs.cluster.spec import ClusterSpec


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Where it is best mended, and what to do."""

    place: Place
    told: str


def disagreements(spec: ClusterSpec) -> Iterator[Disagreement]:
    """All of them."""
    for rule in (_names, _lenders, _roles, _canary, _failover, _seats, _engine_ports, _balancer):
        for place, told in rule(spec):
            yield Disagreement(place, told)
    for place, told in misfits(spec):
        yield Disagreement(place, told)


MOST_ON_A_MACHINE = 64
GATEWAY = "gateway"
"""Gateway number k is called gateway-k, as engine k of a pool is called by the pool's name."""
Told = Iterator[tuple[Place, str]]


def _names(spec: ClusterSpec) -> Told:
    if double := first_double(pool.name for pool in spec.pools):
        at = [pool.name for pool in spec.pools].index(double) + 1
        place = next(k for k in range(at, len(spec.pools)) if spec.pools[k].name == double)
        yield ("pools", place, "name"), f"two pools are called {double}: give each a name of its own"
    for number, pool in enumerate(spec.pools):
        if pool.count and pool.name == GATEWAY:
            yield (
                ("pools", number, "name"),
                f"engines of a pool {GATEWAY} would be called as the gateways are: give it another name",
            )
    if double := first_double(replica.url for _, replica in spec.replicas):
        yield (
            _last_place(spec, "url", double),
            f"{double} is there twice: an engine is in one pool, once, or its cap holds twice",
        )
    if double := first_double(replica.id for _, replica in spec.replicas):
        yield (
            _last_place(spec, "id", double),
            f"two replicas are called {double}: give each an id of its own",
        )


def _last_place(spec: ClusterSpec, key: str, value: str) -> Place:
    places: list[Place] = [
        ("pools", number, "replicas", k)
        for number, pool in enumerate(spec.pools)
        for k, replica in enumerate(pool.replicas)
        if getattr(replica, key) == value
    ]
    return places[-1]


def _lenders(spec: ClusterSpec) -> Told:
    pools = {pool.name: pool for pool in spec.pools}
    for number, pool in enumerate(spec.pools):
        for name in pool.borrow_from:
            place, lender = ("pools", number, "borrow_from"), pools.get(name)
            if lender is None:
                yield place, f"pool {pool.name} borrows from {name}: {near_match(name, pools)}"
            elif lender.role not in LENDING:
                yield (
                    place,
                    f"pool {pool.name} borrows from {name}, which is online ({lender.role}): only pools "
                    f"of role {' or '.join(sorted(LENDING))} lend",
                )
            elif spec.model_of(lender) != spec.model_of(pool):
                yield (
                    place,
                    f"pool {pool.name} serves {spec.model_of(pool)} and borrows from {name}, which "
                    f"serves {spec.model_of(lender)}: a lender serves the same model",
                )


def _roles(spec: ClusterSpec) -> Told:
    """Each pool is sent something."""
    borrowed = {name for pool in spec.pools for name in pool.borrow_from}
    first: dict[tuple[str, str], Pool] = {}
    for number, pool in enumerate(spec.pools):
        before = first.setdefault((spec.model_of(pool), pool.role), pool)
        if pool.name in borrowed:
            continue
        if pool.role == "buffer":
            yield (
                ("pools", number, "role"),
                f"nothing is ever sent to pool {pool.name}: name it in the borrow_from of another, or "
                "give it another role",
            )
        elif before is not pool:
            yield (
                ("pools", number, "role"),
                f"nothing is ever sent to pool {pool.name}: {before.name} has role {pool.role} for "
                f"{spec.model_of(pool)} already; put its replicas there, or give it another role or model",
            )


def _canary(spec: ClusterSpec) -> Told:
    if spec.gateway.canary is None or any(pool.discovery for pool in spec.pools):
        return
    version = spec.gateway.canary.version
    versions = {replica.version for _, replica in spec.replicas if replica.version}
    if version not in versions:
        told = near_match(version, versions) if versions else "give replicas their version"
        yield (
            ("gateway", "canary", "version"),
            f"gateway.canary.version {version} is no replica's: {told}",
        )


def _failover(spec: ClusterSpec) -> Told:
    named = spec.gateway.failover
    if not named:
        return
    groups = {replica.group for _, replica in spec.replicas if replica.group}
    for name in named:
        if name not in groups:
            told = near_match(name, groups) if groups else "give replicas their group"
            yield (
                ("gateway", "failover"),
                f"gateway.failover names {name}, which is no replica's group: {told}",
            )
    for number, pool in enumerate(spec.pools):
        for k, replica in enumerate(pool.replicas):
            if replica.group not in named:
                yield (
                    ("pools", number, "replicas", k),
                    f"replica {replica.id} is of {replica.group or 'no group'}, which gateway.failover "
                    "does not name: nothing would be sent to it",
                )


def _seats(spec: ClusterSpec) -> Told:
    for number, pool in enumerate(spec.pools):
        caps = [pool.cap_of(replica) for replica in pool.replicas]
        if caps and all(caps) and sum(caps) < spec.gateway.gateways:
            yield (
                ("pools", number, "cap"),
                f"the caps of pool {pool.name} are {sum(caps)} in all, and {spec.gateway.gateways} "
                "gateways share them out: raise a cap, or run fewer gateways",
            )


def _engine_ports(spec: ClusterSpec) -> Told:
    """Engines of one machine, and the gateways beside them; so many are not of one machine."""
    if sum(pool.count or 0 for pool in spec.pools) > MOST_ON_A_MACHINE:
        return
    own = spec.gateway
    taken = {own.port: "gateway.port", spec.balancer.port: "balancer.port"}
    for k in range(own.gateways):
        taken |= {own.admin.port + k: "gateway.admin.port", own.metrics.port + k: "gateway.metrics.port"}
    for number, pool in enumerate(spec.pools):
        for port in range(pool.port or 0, (pool.port or 0) + (pool.count or 0)):
            if port in taken:
                yield (
                    ("pools", number, "port"),
                    f"engine {port - (pool.port or 0)} of pool {pool.name} and {taken[port]} are both at "
                    f"port {port}: move one",
                )
                break


def _balancer(spec: ClusterSpec) -> Told:
    if spec.balancer.port == spec.balancer.stats_port:
        yield (
            ("balancer", "stats_port"),
            f"balancer.port and balancer.stats_port are both {spec.balancer.port}: move one",
        )
