"""The files that a cluster file names, as seen from here: relative ones stand beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kilocard.facts.files import user_path
from kilocard.specs.cluster.access import Secret
from kilocard.specs.cluster.gateway import GatewaySpec
from kilocard.specs.cluster.settings import EngineKeys
from kilocard.specs.cluster.spec import ClusterSpec
from kilocard.specs.cluster.weights import ModelWeights

OWN_POLICY = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_]\w*)")
"""A policy of the operator's own: a file beside the cluster's, and the function in it."""


def placed(spec: ClusterSpec, folder: Path) -> ClusterSpec:
    """With each relative path joined to the folder of the file."""
    pools = tuple(
        pool.model_copy(
            update={"engine": _engine(pool.engine, folder), "weights": _weights(pool.weights, folder)}
        )
        for pool in spec.pools
    )
    changes = {
        "gateway": _gateway(spec.gateway, folder),
        "engine": _engine(spec.engine, folder),
        "weights": _weights(spec.weights, folder),
        "pools": pools,
    }
    return spec.model_copy(update=changes)


def _gateway(gateway: GatewaySpec, folder: Path) -> GatewaySpec:
    log = gateway.access_log
    changes: dict[str, Any] = {
        "keys": _secret(gateway.keys, folder),
        "engine_key": _secret(gateway.engine_key, folder),
        "admin": gateway.admin.model_copy(update={"keys": _secret(gateway.admin.keys, folder)}),
    }
    if log.path:
        changes["access_log"] = log.model_copy(update={"path": _beside(log.path, folder)})
    if OWN_POLICY.fullmatch(gateway.policy):
        changes["policy"] = _beside(gateway.policy, folder)
    return gateway.model_copy(update=changes)


def _engine(keys: EngineKeys, folder: Path) -> EngineKeys:
    environment = {
        name: _secret(value, folder) if isinstance(value, Secret) else value
        for name, value in keys.environment.items()
    }
    return keys.model_copy(update={"environment": environment}) if environment else keys


def _weights(weights: ModelWeights | None, folder: Path) -> ModelWeights | None:
    """A folder that begins with a dot stands beside the file; another one is a name of the engines' own."""
    if weights is None or not (weights.path or "").startswith((".", "~")):
        return weights
    return weights.model_copy(update={"path": _beside(weights.path, folder)})


def _secret(secret: Secret | None, folder: Path) -> Secret | None:
    if secret is None or not secret.file:
        return secret
    return secret.model_copy(update={"file": _beside(secret.file, folder)})


def _beside(name: str | None, folder: Path) -> str:
    return str(folder / user_path(name or ""))
