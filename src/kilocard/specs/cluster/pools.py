"""Pools: replicas that serve alike, and what each of them is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from kilocard import facts
from kilocard.specs.cluster.parts import MOST_REPLICAS, Cap, ModelName, Name, Port
from kilocard.specs.cluster.replica import LIKE, Discovery, Replica
from kilocard.specs.cluster.scaling import Scaling
from kilocard.specs.cluster.settings import EngineKeys
from kilocard.specs.cluster.weights import ModelWeights
from kilocard.specs.interconnect import CARDS_PER_NODE
from kilocard.specs.numbers import Count, Whole
from kilocard.specs.written import Written

MOST_NODES = 100_000
MOST_CARDS_PER_NODE = 1024
CAP = 256
"""vLLM's least default of `max_num_seqs` for a server (0.32): past that an engine queues by itself."""
FIRST_PORT = 8001

Role = Literal["chat", "long", "multimodal", "batch", "buffer"]
LENDING = frozenset({"batch", "buffer"})
"""Roles of offline pools, whose idle replicas others may use; never the reverse."""


class Pool(Written):
    """Replicas that serve alike: one model, one role, one cap a replica (0: none) unless it has its own.

    `replicas` are a number, of engines that `kilocard up` or Kubernetes starts; a list of URLs, of engines
    that somebody else runs; or {dns, port}. The number is kept as `count`: engine k of this machine listens
    on `port` + k. The pool has `nodes` machines of `cards_per_node` cards. Never fewer than `min_warm` are
    ready, whatever is rolled out or scaled.

    `borrow_from` names offline pools (batch, buffer) whose idle replicas this one may use. A cap is the whole
    cluster's: each gateway owns its part.
    """

    name: Name
    model: ModelName | None = None
    version: Name | None = None
    role: Role = "chat"
    replicas: tuple[Replica, ...] = Field(default=(), max_length=MOST_REPLICAS)
    count: Annotated[Count, Field(le=MOST_REPLICAS)] | None = None
    discovery: Discovery | None = None
    port: Port | None = None
    min_warm: Annotated[Whole, Field(ge=0, le=MOST_REPLICAS)] = 0
    cap: Cap = CAP
    borrow_from: tuple[Name, ...] = ()
    weights: ModelWeights | None = None
    engine: EngineKeys = EngineKeys()
    card: str | None = None
    nodes: Annotated[Count, Field(le=MOST_NODES)] | None = None
    cards_per_node: Annotated[Count, Field(le=MOST_CARDS_PER_NODE)] = CARDS_PER_NODE
    scaling: Scaling | None = None

    elsewhere: ClassVar[Mapping[str, str]] = {
        "url": "list it under replicas",
        "urls": "list them under replicas",
        "max_num_seqs": "it is the engine's: engine: {max_num_seqs: 32}; the gateway's limit is cap",
        "tensor_parallel_size": "it is the engine's: engine: {tensor_parallel_size: 2}",
        "layout": "it is the engine's: engine: {tensor_parallel_size: 2}",
        "dns": "it stands in replicas: {dns: NAME, port: 8000}",
    }

    @model_validator(mode="before")
    @classmethod
    def _replicas_are_said_in_three_ways(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping):
            return raw
        said = raw.get("replicas")
        if isinstance(said, str) and said.isascii() and said.isdigit():
            said = int(said)
        if isinstance(said, int) and not isinstance(said, bool):
            raw = {**raw, "replicas": (), "count": said}
        elif isinstance(said, Mapping):
            raw = {**raw, "replicas": (), "discovery": said}
        count = raw.get("count")
        if isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= MOST_REPLICAS:
            raw = {**raw, "replicas": _on_this_machine(raw, count)}
        elif isinstance(said, list | tuple) and raw.get("version"):
            raw = {**raw, "replicas": [_with_version(it, raw["version"]) for it in said]}
        return raw

    @field_validator("card")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        return name if name is None else facts.card(name).id

    @model_validator(mode="after")
    def _somebody_answers(self) -> Self:
        if not self.replicas and not self.discovery:
            raise ValueError(
                f"pool {self.name} has no replicas: give their number, a list of URLs ({LIKE}), or "
                "{dns: NAME, port: 8000}"
            )
        if self.count is None:
            for name in ("scaling", "nodes", "port", "min_warm"):
                if getattr(self, name):
                    raise ValueError(
                        f"pool {self.name} has {name}, and its engines are not ours to start: write their "
                        f"number under replicas, or leave {name} out"
                    )
        elif (first := self.port or FIRST_PORT) + self.count - 1 > 65_535:
            raise ValueError(f"port {first} leaves no ports for {self.count} engines: lower it")
        return self

    @model_validator(mode="after")
    def _lenders_are_others(self) -> Self:
        if self.name in self.borrow_from:
            raise ValueError(f"pool {self.name} borrows from itself: leave it out of borrow_from")
        if double := first_double(self.borrow_from):
            raise ValueError(f"borrow_from names {double} twice: once is enough")
        if self.borrow_from and self.role in LENDING:
            raise ValueError(
                f"pool {self.name} has role {self.role} and borrows: online pools borrow from offline ones, "
                "never the reverse; leave borrow_from out"
            )
        return self

    def cap_of(self, replica: Replica) -> int:
        """The most requests in flight of one replica, over all gateways; 0 for no limit."""
        return self.cap if replica.cap is None else replica.cap


def first_double(names: Iterable[str]) -> str | None:
    """A name that is there twice."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _on_this_machine(raw: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """The replicas of a pool of which only the number is told."""
    port = raw.get("port") or FIRST_PORT
    if isinstance(port, str) and port.isascii() and port.isdigit():
        port = int(port)
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port <= 65_536 - count:
        return [{"url": "http://127.0.0.1:1"}]  # the port's own fault is told, or that of their number
    return [
        {"url": f"http://127.0.0.1:{port + k}", "id": f"{raw.get('name')}-{k}", "version": raw.get("version")}
        for k in range(count)
    ]


def _with_version(replica: Any, version: Any) -> Any:
    content = {"url": replica} if isinstance(replica, str) else replica
    return {"version": version, **content} if isinstance(content, Mapping) else content
