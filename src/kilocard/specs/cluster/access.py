"""Who may come in, by which door, how often, and what is written down of it. No secret stands in the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from kilocard.specs.cluster.parts import Host, Port, is_loopback
from kilocard.specs.numbers import Positive, Seconds
from kilocard.specs.written import Written

PriorityClass = Literal["interactive", "async", "batch"]
LONGEST_PATH = 1024
Path = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Secret(Written):
    """Where a secret stands: in a file (beside the cluster file unless it begins with /), or in an
    environment variable."""

    file: Path | None = None
    variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] | None = None

    @model_validator(mode="before")
    @classmethod
    def _says_where(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping | Secret):
            raise ValueError(
                "a secret does not stand in the cluster file: write {file: PATH} or {variable: NAME}"
            )
        return raw

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.file is None) == (self.variable is None):
            raise ValueError("a secret has one place: give file or variable")
        return self


class Tenant(Written):
    """What a tenant may: the highest class that it is served in, and its rates over all gateways (None: no
    limit). What it saves up in `burst_s` it may use at once."""

    ceiling: PriorityClass = "interactive"
    requests_per_s: Annotated[Positive, Field(le=1_000_000)] | None = None
    tokens_per_s: Annotated[Positive, Field(le=1_000_000_000)] | None = None
    burst_s: Seconds = 10.0


class Door(Written):
    """A port of the operator's. Gateway number k of the cluster listens on `port` + k; beyond this machine it
    asks for a key."""

    host: Host = "127.0.0.1"
    port: Port
    keys: Secret | None = None

    @model_validator(mode="after")
    def _a_key_where_others_reach_it(self) -> Self:
        if not is_loopback(self.host) and self.keys is None:
            raise ValueError(
                f"host {self.host} lets other machines steer the gateway: set keys, or host 127.0.0.1"
            )
        return self


class MetricsDoor(Written):
    """The port of /metrics. Gateway number k of the cluster listens on `port` + k. It tells load, models and
    tenants, and takes no orders."""

    host: Host = "127.0.0.1"
    port: Port


class AccessLog(Written):
    """One JSON line a request, to stderr or a file. Prompts and answers stay out. At SIGUSR1 a gateway opens
    its file anew, after somebody has moved it away; `kilocard up` does both with a log that has no path."""

    elsewhere: ClassVar[Mapping[str, str]] = {"file": "did you mean 'path'?"}

    path: Path | None = None
