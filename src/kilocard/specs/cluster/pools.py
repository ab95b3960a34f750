"""Pools: replicas that serve alike, and what each of them is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from kilocard.specs.cluster.parts import Cap, Id, ModelName, Name, Share, host_of, joined
from kilocard.specs.written import Written

MOST_REPLICAS = 4096
CAP = 256
"""vLLM's least default of `max_num_seqs` for a server (0.32): past that an engine queues by itself."""
LIKE = "write it like http://127.0.0.1:8001"

Role = Literal["chat", "long", "multimodal", "batch", "buffer"]
LENDING = frozenset({"batch", "buffer"})
"""Roles of offline pools, whose idle replicas others may use; never the reverse."""


class Replica(Written):
    """One engine that answers. `id` is its `host:port` unless given; a cap of 0 is none, and one left out is
    the pool's; `group` is the deployment that it fails together with."""

    url: str
    id: Id = ""
    weight: Share = 1.0
    cap: Cap | None = None
    node: Name | None = None
    version: Name | None = None
    group: Name | None = None

    elsewhere: ClassVar[Mapping[str, str]] = {
        "host": f"a replica has a url: {LIKE}",
        "port": f"a replica has a url: {LIKE}",
        "model": "it stands in the pool",
        "role": "it stands in the pool",
    }

    @model_validator(mode="before")
    @classmethod
    def _a_url_is_one(cls, raw: Any) -> Any:
        """A replica may be its URL alone; the URL is put in its one form, and names it."""
        content = {"url": raw} if isinstance(raw, str) else raw
        if not isinstance(content, Mapping) or not isinstance(content.get("url"), str):
            return content
        place = joined(*_engine(content["url"]))
        return {**content, "url": f"http://{place}", "id": content.get("id") or place}

    @property
    def host(self) -> str:
        """The engine's host: a name, or an address without brackets."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The engine's port."""
        return urlsplit(self.url).port or 80


class Pool(Written):
    """Replicas that serve alike: one model, one role, one cap a replica (0: none) unless it has its own.

    `borrow_from` names offline pools (batch, buffer) whose idle replicas this one may use. A cap is the whole
    cluster's: each gateway owns its part.
    """

    name: Name
    model: ModelName | None = None
    role: Role = "chat"
    replicas: tuple[Replica, ...] = Field(min_length=1, max_length=MOST_REPLICAS)
    cap: Cap = CAP
    borrow_from: tuple[Name, ...] = ()

    elsewhere: ClassVar[Mapping[str, str]] = {
        "url": "list it under replicas",
        "urls": "list them under replicas",
        "max_num_seqs": "it is the engine's; the gateway's limit is cap",
    }

    @model_validator(mode="before")
    @classmethod
    def _a_lone_replica_is_a_list(cls, raw: Any) -> Any:
        if isinstance(raw, Mapping) and isinstance(raw.get("replicas"), int):
            raise ValueError(f"replicas are a list of engine URLs, no number: {LIKE}")
        return raw

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


def _engine(url: str) -> tuple[str, int]:
    """Host and port of an engine's URL, in which nothing else may differ from `http://host:port`."""
    text = url.strip()
    if not text.isprintable() or " " in text:
        raise ValueError(f"a URL has no space and no line break within: {LIKE}")
    try:
        parts = urlsplit(text if "//" in text else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise ValueError(f"it is no URL of an engine: {LIKE}") from error
    if "@" in parts.netloc:
        raise ValueError(f"a URL holds no password: put the engines' key in gateway.engine_key; {LIKE}")
    if parts.scheme != "http":
        raise ValueError(
            f"{parts.scheme[:20]}:// is not spoken to engines: they answer http inside the closed net; {LIKE}"
        )
    if parts.path.rstrip("/") not in ("", "/v1") or parts.query or parts.fragment:
        raise ValueError(f"the URL of an engine ends with its port, before any path: {LIKE}")
    if not parts.hostname or port == 0:
        raise ValueError(f"it names no host, or port 0: {LIKE}")
    return host_of(parts.hostname), port or 80
