"""The gateway's section of a cluster file: how many, where, by which policy, and within which bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from kilocard.specs.cluster.access import AccessLog, Door, MetricsDoor, Secret, Tenant
from kilocard.specs.cluster.balancer import GatewayPlace
from kilocard.specs.cluster.health import Health, Weights
from kilocard.specs.cluster.limits import Limits, Retries, Timeouts
from kilocard.specs.cluster.parts import ANYWHERE, Host, Name, Port, SomeShare, is_loopback
from kilocard.specs.cluster.pools import first_double
from kilocard.specs.cluster.waiting import Waiting
from kilocard.specs.numbers import Count, Tokens
from kilocard.specs.written import Written

MOST_GATEWAYS = 128
EVERYBODY = "default"
"""The tenant whose limits hold for each that is not named."""


class Canary(Written):
    """Of the requests that replicas of this version could serve, this share goes to them and the rest past
    them."""

    version: Name
    share: SomeShare


class GatewaySpec(Waiting):
    """One gateway of `gateways`, that the whole cluster has. Each owns 1/N of every cap, queue and tenant's
    limit.

    Without `keys` whoever reaches the port is served, so beyond this machine they are asked for, or `open:
    true`. `engine_key` is shown to engines that were started with `--api-key`. A request of `long_tokens` or
    more, its prompt and the max_tokens that it names, goes to a pool of role long where there is one.
    `failover` is the order in which groups of replicas are used: the next where none of the one before may be
    chosen. Gateway number k has the ports of `admin` and `metrics` + k.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        "workers": "gateways are the cluster's; those of one machine are --workers of the command",
        "cap": "it stands in a pool, or beside a replica's url",
        "max_tokens": "it stands in gateway.limits",
        "total_s": "it stands in gateway.timeouts",
        "log": "did you mean 'access_log'?",
        "api_key": "no key stands in the file: keys: {file: PATH} or {variable: NAME}",
    }

    gateways: Annotated[Count, Field(le=MOST_GATEWAYS)] = 1
    places: tuple[GatewayPlace, ...] = Field(default=(), max_length=MOST_GATEWAYS)
    host: Host = "127.0.0.1"
    port: Port = 8080
    admin: Door = Door(port=9600)
    metrics: MetricsDoor = MetricsDoor(port=9400)
    policy: Annotated[str, Field(min_length=1, max_length=200)] = "least-delay"
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    retries: Retries = Retries()
    health: Health = Health()
    weights: Weights = Weights()
    keys: Secret | None = None
    open: bool = False
    engine_key: Secret | None = None
    tenants: dict[Name, Tenant] = Field(default_factory=dict, max_length=10_000)
    canary: Canary | None = None
    long_tokens: Tokens = 16_384
    failover: tuple[Name, ...] = ()
    access_log: AccessLog = AccessLog()

    @model_validator(mode="before")
    @classmethod
    def _a_door_keeps_its_port(cls, raw: Any) -> Any:
        """What a file leaves out of a door is as it was."""
        if not isinstance(raw, Mapping):
            return raw
        ports = {
            name: {"port": cls.model_fields[name].default.port, **raw[name]}
            for name in ("admin", "metrics")
            if isinstance(raw.get(name), Mapping)
        }
        return {**raw, **ports}

    @model_validator(mode="after")
    def _closed_beyond_this_machine(self) -> Self:
        if not is_loopback(self.host) and self.keys is None and not self.open:
            raise ValueError(
                f"host {self.host} serves other machines and no key is asked for: set keys, or open: true "
                "where another door stands in front"
            )
        if self.open and self.keys is not None:
            raise ValueError("open: true asks for no key, and keys are given: leave one of them out")
        if self.tenants and self.keys is None and list(self.tenants) != [EVERYBODY]:
            raise ValueError(
                f"tenants are told apart by their keys, and there are none: set keys, or limit all as "
                f"{EVERYBODY!r}"
            )
        return self

    @model_validator(mode="after")
    def _each_port_is_free(self) -> Self:
        together = self.gateways
        spans = [
            ("port", self.host, self.port, 1),
            ("metrics.port", self.metrics.host, self.metrics.port, together),
            ("admin.port", self.admin.host, self.admin.port, together),
        ]
        for at, (name, host, port, count) in enumerate(spans):
            if port + count - 1 > 65_535:
                raise ValueError(f"{name} {port} leaves no ports for {count} gateways: lower it")
            for other, its_host, its_port, its_count in spans[:at]:
                apart = port + count <= its_port or its_port + its_count <= port
                if not apart and _meet(host, its_host):
                    raise ValueError(
                        f"{name} {_span(port, count)} and {other} {_span(its_port, its_count)} meet: move one"
                    )
        return self

    @model_validator(mode="after")
    def _places_are_all_of_them(self) -> Self:
        if self.places and len(self.places) != self.gateways:
            raise ValueError(
                f"gateways is {self.gateways} and places has {len(self.places)}: name the place of each"
            )
        if double := first_double(str(place) for place in self.places):
            raise ValueError(f"places names {double} twice")
        if double := first_double(self.failover):
            raise ValueError(f"failover names {double} twice: it would go round; name each group once")
        return self

    @property
    def longest_s(self) -> float:
        """Seconds from a request's last byte to its answer's, at the most: its wait, its tries and its
        longest generation. Whatever stands in front lets a connection be silent for so long."""
        wait_s = max(its.max_wait_s for its in self.classes.by_rank)
        try_s = self.timeouts.connect_s + self.timeouts.first_byte_s
        return wait_s + self.retries.most * try_s + self.timeouts.longest_s(self.limits.max_tokens)

    def tenant(self, name: str) -> Tenant:
        """The limits of a tenant: its own, or everybody's."""
        return self.tenants.get(name) or self.tenants.get(EVERYBODY) or Tenant()


def _meet(host: str, other: str) -> bool:
    return host == other or host in ANYWHERE or other in ANYWHERE


def _span(port: int, count: int) -> str:
    return str(port) if count == 1 else f"{port} to {port + count - 1}"
