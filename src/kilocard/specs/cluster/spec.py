"""The cluster file as a whole, and what its parts must agree on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from pydantic import Field, model_validator

from kilocard.errors import near_match
from kilocard.specs.cluster.balancer import Balancer, GatewayPlace
from kilocard.specs.cluster.gateway import GatewaySpec
from kilocard.specs.cluster.parts import ANYWHERE, ModelName, Name
from kilocard.specs.cluster.pools import LENDING, Pool, Replica, first_double
from kilocard.specs.written import Written

MOST_POOLS = 256


class ClusterSpec(Written):
    """A model, the pools of replicas that serve it or one of their own, the gateway before them, and the L4
    tier before the gateways. Two files that say the same are equal."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "replicas": "they stand in a pool: pools: [{name: chat, replicas: [http://127.0.0.1:8001]}]",
        "engines": "they stand in a pool: pools: [{name: chat, replicas: [http://127.0.0.1:8001]}]",
        "port": "it stands in gateway.port",
        "policy": "it stands in gateway.policy",
        "keys": "it stands in gateway.keys",
        "tenants": "it stands in gateway.tenants",
    }

    name: Name
    model: ModelName
    pools: tuple[Pool, ...] = Field(min_length=1, max_length=MOST_POOLS)
    gateway: GatewaySpec = GatewaySpec()
    balancer: Balancer = Balancer()

    @model_validator(mode="after")
    def _each_is_named_once(self) -> Self:
        if double := first_double(pool.name for pool in self.pools):
            raise ValueError(f"two pools are called {double}: give each a name of its own")
        if double := first_double(replica.url for _, replica in self.replicas):
            raise ValueError(
                f"{double} is there twice: an engine is in one pool, once, or its cap holds twice"
            )
        if double := first_double(replica.id for _, replica in self.replicas):
            raise ValueError(f"two replicas are called {double}: give each an id of its own")
        return self

    @model_validator(mode="after")
    def _lenders_lend(self) -> Self:
        pools = {pool.name: pool for pool in self.pools}
        for pool in self.pools:
            for name in pool.borrow_from:
                lender = pools.get(name)
                if lender is None:
                    raise ValueError(f"pool {pool.name} borrows from {name}: {near_match(name, pools)}")
                if lender.role not in LENDING:
                    raise ValueError(
                        f"pool {pool.name} borrows from {name}, which is online ({lender.role}): only pools "
                        f"of role {' or '.join(sorted(LENDING))} lend"
                    )
                if self.model_of(lender) != self.model_of(pool):
                    raise ValueError(
                        f"pool {pool.name} serves {self.model_of(pool)} and borrows from {name}, which "
                        f"serves {self.model_of(lender)}: a lender serves the same model"
                    )
        borrowed = {name for pool in self.pools for name in pool.borrow_from}
        for pool in self.pools:
            if pool.role == "buffer" and pool.name not in borrowed:
                raise ValueError(
                    f"nothing is ever sent to pool {pool.name}: name it in the borrow_from of another, or "
                    "give it another role"
                )
        return self

    @model_validator(mode="after")
    def _what_the_gateway_names_is_there(self) -> Self:
        if self.gateway.canary:
            version = self.gateway.canary.version
            versions = {replica.version for _, replica in self.replicas if replica.version}
            if version not in versions:
                raise ValueError(
                    f"gateway.canary.version {version} is no replica's: "
                    + (near_match(version, versions) if versions else "give replicas their version")
                )
        if self.gateway.failover:
            groups = {replica.group for _, replica in self.replicas if replica.group}
            for name in self.gateway.failover:
                if name not in groups:
                    raise ValueError(
                        f"gateway.failover names {name}, which is no replica's group: "
                        + (near_match(name, groups) if groups else "give replicas their group")
                    )
            for _, replica in self.replicas:
                if replica.group not in self.gateway.failover:
                    raise ValueError(
                        f"replica {replica.id} is of {replica.group or 'no group'}, which gateway.failover "
                        "does not name: nothing would be sent to it"
                    )
        return self

    @model_validator(mode="after")
    def _each_gateway_has_a_seat(self) -> Self:
        for pool in self.pools:
            caps = [pool.cap_of(replica) for replica in pool.replicas]
            if all(caps) and sum(caps) < self.gateway.gateways:
                raise ValueError(
                    f"the caps of pool {pool.name} are {sum(caps)} in all, and {self.gateway.gateways} "
                    "gateways share them out: raise a cap, or run fewer gateways"
                )
        return self

    @model_validator(mode="after")
    def _the_balancer_has_its_own_ports(self) -> Self:
        if self.balancer.port == self.balancer.stats_port:
            raise ValueError(f"balancer.port and balancer.stats_port are both {self.balancer.port}: move one")
        return self

    @property
    def replicas(self) -> Iterator[tuple[Pool, Replica]]:
        """Every replica with its pool, in the file's order."""
        return ((pool, replica) for pool in self.pools for replica in pool.replicas)

    @property
    def models(self) -> tuple[str, ...]:
        """The names that are served, each once, in the file's order."""
        return tuple(dict.fromkeys(self.model_of(pool) for pool in self.pools))

    def model_of(self, pool: Pool) -> str:
        """The name that a pool serves."""
        return pool.model or self.model

    @property
    def gateway_places(self) -> tuple[GatewayPlace, ...]:
        """Where the gateways are reached: as the file names them, else this machine's ports from the
        gateway's on."""
        own = self.gateway
        host = "127.0.0.1" if own.host in ANYWHERE else own.host
        ports = range(own.port, own.port + own.gateways)
        return own.places or tuple(GatewayPlace(host=host, port=port) for port in ports)
