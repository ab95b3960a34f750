"""The cluster file as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from kilocard.specs.cluster.agreements import disagreements
from kilocard.specs.cluster.alerts import Alerts
from kilocard.specs.cluster.balancer import Balancer, GatewayPlace
from kilocard.specs.cluster.deployment import Deployment
from kilocard.specs.cluster.gateway import GatewaySpec
from kilocard.specs.cluster.inherit import inherited
from kilocard.specs.cluster.lifecycle import Lifecycle
from kilocard.specs.cluster.parts import ANYWHERE, ModelName, Name
from kilocard.specs.cluster.placement import Placement
from kilocard.specs.cluster.pools import Pool
from kilocard.specs.cluster.replica import Replica
from kilocard.specs.cluster.settings import EngineKeys
from kilocard.specs.cluster.weights import ModelWeights
from kilocard.specs.engine import EngineSpec
from kilocard.specs.slo import SLO
from kilocard.specs.written import Written

MOST_POOLS = 256
DISAGREES = "disagrees"
"""The type of the error that holds what the parts of a file do not agree on."""


class ClusterSpec(Written):
    """A model in a version, the pools of replicas that serve it or one of their own, the gateway before them,
    and the L4 tier before the gateways; how engines come and go, where they are placed, what is promised and
    when somebody is told. Two files that say the same are equal."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "replicas": "they stand in a pool: pools: [{name: chat, replicas: [http://127.0.0.1:8001]}]",
        "engines": "they stand in a pool: pools: [{name: chat, replicas: 2}]",
        "port": "it stands in gateway.port",
        "policy": "it stands in gateway.policy",
        "keys": "it stands in gateway.keys",
        "tenants": "it stands in gateway.tenants",
        "health": "it stands in gateway.health",
        "scaling": "it stands in a pool",
        "canary": "its checks stand in lifecycle.canary, its share of a running gateway in gateway.canary",
        "namespace": "it stands in deployment.namespace",
        "image": "it stands in deployment.engine_image",
    }

    name: Name
    model: ModelName
    version: Name | None = None
    weights: ModelWeights | None = None
    engine: EngineKeys = EngineKeys()
    pools: tuple[Pool, ...] = Field(min_length=1, max_length=MOST_POOLS)
    gateway: GatewaySpec = GatewaySpec()
    lifecycle: Lifecycle = Lifecycle()
    placement: Placement = Placement()
    slo: SLO | None = None
    alerts: Alerts = Alerts()
    deployment: Deployment = Deployment()
    balancer: Balancer = Balancer()

    @model_validator(mode="before")
    @classmethod
    def _pools_take_what_is_said_for_all(cls, raw: Any) -> Any:
        return inherited(raw) if isinstance(raw, Mapping) else raw

    @model_validator(mode="after")
    def _its_parts_agree(self) -> Self:
        if found := tuple(disagreements(self)):
            raise PydanticCustomError(DISAGREES, "{told}", {"told": found[0].told, "found": found})
        return self

    @property
    def replicas(self) -> Iterator[tuple[Pool, Replica]]:
        """Every replica with its pool, in the file's order; those that are discovered are not known yet."""
        return ((pool, replica) for pool in self.pools for replica in pool.replicas)

    @property
    def models(self) -> tuple[str, ...]:
        """The names that are served, each once, in the file's order."""
        return tuple(dict.fromkeys(self.model_of(pool) for pool in self.pools))

    def model_of(self, pool: Pool) -> str:
        """The name that a pool serves."""
        return pool.model or self.model

    def weights_of(self, pool: Pool) -> ModelWeights:
        """Where a pool's weights lie; those of the cluster are of the cluster's model."""
        return pool.weights or (self.weights if pool.model in (None, self.model) else None) or ModelWeights()

    def engine_of(self, pool: Pool) -> EngineSpec:
        """What one engine of a pool is asked to be."""
        served = self.model_of(pool)
        return pool.engine.over(self.engine).spec(self.weights_of(pool).path or served, served)

    def cards_of(self, pool: Pool) -> int:
        """Cards that one replica of a pool takes: TP x PP x DP."""
        return self.engine_of(pool).ranks

    @property
    def gateway_places(self) -> tuple[GatewayPlace, ...]:
        """Where the gateways are reached: as the file names them, else this machine's ports from the
        gateway's on."""
        own = self.gateway
        host = "127.0.0.1" if own.host in ANYWHERE else own.host
        ports = range(own.port, own.port + own.gateways)
        return own.places or tuple(GatewayPlace(host=host, port=port) for port in ports)
