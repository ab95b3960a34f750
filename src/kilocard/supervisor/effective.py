"""The cluster file that the gateways read: the user's, with the engines that serve at this moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kilocard.lifecycle import Phase, Stage
from kilocard.specs.cluster import ClusterSpec, Pool
from kilocard.specs.cluster.parts import LONGEST_NAME
from kilocard.specs.engine import EngineSpec
from kilocard.supervisor.home import Home
from kilocard.supervisor.recipe import Recipe
from kilocard.supervisor.state import Held, State

HEAD = "# Written by `kilocard up` for its gateways, after each change. Change the cluster file, not this.\n"


def effective(spec: ClusterSpec, state: State, home: Home) -> str:
    """As YAML. A pool that serves nobody keeps one replica of weight 0: what comes is told to come later."""
    gateway = spec.gateway.model_dump(mode="json", by_alias=True)
    gateway["access_log"]["path"] = str(access_log_of(spec, home))
    pools = [_pool(spec, pool, state) for pool in spec.pools]
    versions = {row["version"] for pool in pools for row in pool["replicas"]}
    own = gateway["canary"] if gateway["canary"] and gateway["canary"]["version"] in versions else None
    gateway["canary"] = canary(spec, state) or own
    whole = {"name": spec.name, "model": spec.model, "pools": pools, "gateway": gateway}
    return HEAD + yaml.safe_dump(whole, sort_keys=False)


def access_log_of(spec: ClusterSpec, home: Home) -> Path:
    """Where the gateways write down what they served: the user's own place, else in the home."""
    own = spec.gateway.access_log.path
    return Path(own).expanduser() if own else home.access_log


def version_of(state: State, held: Held) -> str:
    """What answers call it: its version, and where two settings of one version serve, which of them."""
    slot = held.slot
    version = state.recipes[slot.runs].version
    change = state.changes.get(slot.pool)
    if change is None or slot.runs == change.target or change.target not in state.recipes:
        return version
    if state.recipes[change.target].version != version:
        return version
    return f"{version[: LONGEST_NAME - 7]}+{slot.runs[:6]}"


def canary(spec: ClusterSpec, state: State) -> dict[str, Any] | None:
    """The share of the version that is tried, while one is."""
    rule = spec.lifecycle.canary
    for pool in spec.pools:
        change = state.changes.get(pool.name)
        if rule is None or change is None or change.stage is not Stage.TRYING:
            continue
        for held in state.of_pool(pool.name):
            if held.slot.runs == change.candidate and held.slot.phase is Phase.SERVING:
                return {"version": version_of(state, held), "share": rule.share}
    return None


def _pool(spec: ClusterSpec, pool: Pool, state: State) -> dict[str, Any]:
    told = {
        "name": pool.name,
        "model": pool.model,
        "role": pool.role,
        "cap": pool.cap,
        "borrow_from": list(pool.borrow_from),
    }
    if pool.count is None:
        return {**told, "replicas": [replica.model_dump(mode="json") for replica in pool.replicas]}
    held = state.of_pool(pool.name)
    serving = [it for it in held if it.slot.phase is Phase.SERVING and it.slot.runs in state.recipes]
    rows = [
        {**_replica(it, version_of(state, it), 1.0), "cap": _cap(spec, pool, state.recipes[it.slot.runs])}
        for it in serving
    ]
    return {**told, "replicas": rows or [_replica(held[0], pool.version, 0.0)]}


def _cap(spec: ClusterSpec, pool: Pool, recipe: Recipe) -> int | None:
    """While two settings serve, each engine has the cap that its own bear."""
    own, new = _slots(recipe.engine), _slots(spec.engine_of(pool))
    if own is None or pool.cap == new:
        return own
    return min(pool.cap or own, own)


def _slots(engine: EngineSpec) -> int | None:
    """How many requests an engine runs at once, where that is told."""
    return engine.max_num_seqs * engine.data_parallel_size if engine.max_num_seqs else None


def _replica(held: Held, version: str | None, weight: float) -> dict[str, Any]:
    return {
        "url": f"http://127.0.0.1:{held.port}",
        "id": held.slot.name,
        "version": version,
        "weight": weight,
    }
