"""What a cluster file says once for all pools, put where each pool would say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilocard.specs.cluster.pools import CAP, FIRST_PORT


def inherited(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The content with each pool's version, first port and cap, where it says none itself."""
    pools = raw.get("pools")
    if not isinstance(pools, list | tuple):
        return raw
    port, told = FIRST_PORT, []
    for pool in pools:
        completed = _completed(pool, raw, port) if isinstance(pool, Mapping) else pool
        port = _next_port(completed, port) if isinstance(completed, Mapping) else port
        told.append(completed)
    return {**raw, "pools": told}


def _completed(pool: Mapping[str, Any], raw: Mapping[str, Any], port: int) -> Mapping[str, Any]:
    more: dict[str, Any] = {}
    if pool.get("version") is None and pool.get("model") in (None, raw.get("model")):
        more["version"] = raw.get("version")
    if pool.get("port") is None and _count(pool):
        more["port"] = port
    if pool.get("cap") is None:
        more["cap"] = _cap(pool, raw)
    return {**pool, **more}


def _cap(pool: Mapping[str, Any], raw: Mapping[str, Any]) -> int:
    """As many as run at once in an engine of which that is told."""
    slots = _setting("max_num_seqs", pool, raw)
    return min(CAP, slots * (_setting("data_parallel_size", pool, raw) or 1)) if slots else CAP


def _setting(name: str, pool: Mapping[str, Any], raw: Mapping[str, Any]) -> int | None:
    for level in (pool, raw):
        engine = level.get("engine")
        if isinstance(engine, Mapping) and (value := _whole(engine.get(name))):
            return value
    return None


def _count(pool: Mapping[str, Any]) -> int | None:
    return _whole(pool.get("replicas")) or _whole(pool.get("count"))


def _next_port(pool: Mapping[str, Any], port: int) -> int:
    count, own = _count(pool), _whole(pool.get("port"))
    return (own or port) + count if count else port


def _whole(value: Any) -> int | None:
    """A whole number over 0, which a variable of the environment gives as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
