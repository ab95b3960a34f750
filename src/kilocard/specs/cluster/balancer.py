"""The L4 tier before the gateways."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from kilocard.specs.cluster.parts import Host, Port, joined
from kilocard.specs.numbers import Count, Seconds
from kilocard.specs.written import Written

MOST_CONNECTIONS = 1_000_000


class GatewayPlace(Written):
    """Where the L4 tier reaches a gateway: `host:port`, and the port that answers /ready where it is not the
    same."""

    host: Host
    port: Port
    ready_port: Port | None = None

    @model_validator(mode="before")
    @classmethod
    def _host_and_port(cls, raw: Any) -> Any:
        if not isinstance(raw, str):
            return raw
        found = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]+):(\d+)", raw.strip())
        if found is None:
            raise ValueError("the place of a gateway is host:port, like 10.0.0.7:8080")
        return {"host": found[1], "port": found[2]}

    def __str__(self) -> str:
        return joined(self.host, self.port)


class Balancer(Written):
    """HAProxy's own port and bounds. `connections` left out are as many as its machine lets it open files
    for. `fall` failed checks in a row take a gateway out, `rise` good ones let it in again; its statistics
    are told on loopback alone."""

    elsewhere: ClassVar[Mapping[str, str]] = {"gateways": "they stand in gateway.places"}

    host: Host = "127.0.0.1"
    port: Port = 8000
    connections: Annotated[Count, Field(le=MOST_CONNECTIONS)] | None = None
    connect_s: Seconds = 2.0
    check_every_s: Seconds = 1.0
    fall: Annotated[Count, Field(le=100)] = 2
    rise: Annotated[Count, Field(le=100)] = 1
    stats_port: Port = 9800
