"""What the gateways read: their cluster file, and a policy of the user's own beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kilocard.deploy.kubernetes.names import Object, engines_of, meta
from kilocard.deploy.kubernetes.pods import ADMIN_PORT, ENGINE_PORT, GATEWAY_PORT, METRICS_PORT
from kilocard.errors import KilocardError
from kilocard.specs.cluster import ClusterSpec, Pool
from kilocard.specs.cluster.paths import OWN_POLICY
from kilocard.specs.cluster.secrets import looks_secret

NAME = "gateway"
CONFIG = f"{NAME}-cluster"
FILES, KEYS = "/etc/kilocard", "/etc/kilocard-secrets"
CLUSTER, POLICY = "cluster.yaml", "policy.py"
MOST_BYTES = 2**20
"""Of a ConfigMap, its keys among them: Kubernetes refuses a larger one."""


def config(spec: ClusterSpec) -> Object:
    """Engines are found by their Services' names; a policy of the user's own is carried along."""
    told = yaml.safe_dump(gateway_file(spec), sort_keys=False)
    data = {CLUSTER: told, **_own_policy(spec.gateway.policy)}
    size = sum(len(key) + len(text.encode()) for key, text in data.items())
    if size > MOST_BYTES:
        raise KilocardError(
            f"what the gateways read is {size:,} bytes, and a ConfigMap holds {MOST_BYTES:,}: "
            + ", ".join(f"{key} has {len(text.encode()):,}" for key, text in data.items())
            + "; make it shorter"
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(spec, CONFIG, NAME),
        "data": data,
    }


def gateway_file(spec: ClusterSpec) -> dict[str, Any]:
    """The cluster file as a gateway needs it. Secrets are files that a Secret is mounted as."""
    gateway = spec.gateway.model_dump(mode="json", by_alias=True)
    gateway |= {"host": "0.0.0.0", "port": GATEWAY_PORT, "places": [], "access_log": {"path": None}}
    gateway["metrics"] = {"host": "0.0.0.0", "port": METRICS_PORT}
    gateway["admin"] = {"host": "127.0.0.1", "port": ADMIN_PORT, "keys": None}
    if own := OWN_POLICY.fullmatch(spec.gateway.policy):
        gateway["policy"] = f"{FILES}/{POLICY}:{own['name']}"
    if spec.gateway.keys:
        gateway["keys"] = {"file": f"{KEYS}/keys"}
    elif not spec.gateway.open:
        gateway["open"] = True
    if spec.gateway.engine_key:
        gateway["engine_key"] = {"file": f"{KEYS}/engine-key"}
    pools = [_pool(spec, pool) for pool in spec.pools]
    return {"name": spec.name, "model": spec.model, "pools": pools, "gateway": gateway}


def _own_policy(named: str) -> dict[str, str]:
    """The file of a policy `PATH.py:NAME`; nothing for one of Kilocard's."""
    own = OWN_POLICY.fullmatch(named)
    if own is None:
        return {}
    from kilocard.routing.own_file import policy_at  # it compiles: only who has such a file waits for that

    policy_at(named)
    text = Path(own["path"]).expanduser().read_text(encoding="utf-8")
    if looks_secret(text):
        raise KilocardError(
            f"the policy {own['path']} holds what looks like a secret, and a ConfigMap is read by everybody: "
            "leave it out"
        )
    return {POLICY: text}


def _pool(spec: ClusterSpec, pool: Pool) -> dict[str, Any]:
    found = (
        {"dns": engines_of(pool), "port": ENGINE_PORT}
        if pool.count
        else [replica.model_dump(mode="json") for replica in pool.replicas]
    )
    return {
        "name": pool.name,
        "model": pool.model,
        "version": pool.version,
        "role": pool.role,
        "cap": pool.cap,
        "borrow_from": list(pool.borrow_from),
        "replicas": found,
    }
