"""What differs between two readings of a cluster file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kilocard.specs.cluster.spec import ClusterSpec

RESTARTS = (
    "gateway.host",
    "gateway.port",
    "gateway.admin.host",
    "gateway.admin.port",
    "gateway.metrics",
)
"""What a running gateway cannot change: it is bound to these."""


def differences(old: ClusterSpec, new: ClusterSpec) -> tuple[str, ...]:
    """The places that differ, like `gateway.queue.limit` or `pools.chat.cap`; pools and replicas are told by
    their names, so one that moved in the list is the same."""
    return tuple(_compare(_content(old), _content(new), ""))


def needs_restart(places: Iterable[str]) -> tuple[str, ...]:
    """Those of the differences that only a new process takes up."""
    return tuple(place for place in places if place.startswith(RESTARTS) or place == "gateway.admin")


def _content(spec: ClusterSpec) -> dict[str, Any]:
    content = spec.model_dump(mode="json", by_alias=True)
    pools = {
        pool["name"]: {**pool, "replicas": {replica["id"]: replica for replica in pool["replicas"]}}
        for pool in content["pools"]
    }
    return {**content, "pools": pools}


def _compare(old: Any, new: Any, place: str) -> list[str]:
    if old == new:
        return []
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [place]
    names = [*old, *(name for name in new if name not in old)]
    found = []
    for name in names:
        inner = f"{place}.{name}" if place else str(name)
        if name in old and name in new:
            found += _compare(old[name], new[name], inner)
        else:
            found.append(inner)
    return found
