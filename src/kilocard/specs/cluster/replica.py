"""One engine that answers, and where those of a pool are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import model_validator

from kilocard.specs.cluster.parts import Cap, Host, Id, Name, Port, Share, host_of, joined
from kilocard.specs.numbers import Seconds
from kilocard.specs.written import Written

LIKE = "write it like http://127.0.0.1:8001"


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


class Discovery(Written):
    """Engines come and go behind one name, as pods do behind a headless Service: each address that it has is
    a replica. It is asked again every `every_s`."""

    elsewhere: ClassVar[Mapping[str, str]] = {"host": "did you mean 'dns'?", "name": "did you mean 'dns'?"}

    dns: Host
    port: Port
    every_s: Seconds = 2.0


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
