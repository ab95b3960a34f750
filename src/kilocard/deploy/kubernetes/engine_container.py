"""An engine's container: what it is told, what it is given, how it is asked whether it lives."""

from __future__ import annotations

from math import ceil

from kilocard.deploy.kubernetes.names import Object
from kilocard.deploy.kubernetes.pods import CACHE, ENGINE_PORT, SECRETS, container_security, probe
from kilocard.deploy.kubernetes.weights import is_on_the_volume, model_of
from kilocard.launch.command import Flavour, vllm_flags
from kilocard.specs.cluster import ClusterSpec, Pool, Secret

GONE_S = 15
"""Seconds from a pod's end in the endpoints until every gateway has asked the name again."""
PROBE_S = 10


def engine_container(spec: ClusterSpec, pool: Pool, role: str) -> Object:
    """A worker of a group is not asked: it answers nobody."""
    here = min(spec.cards_of(pool), pool.cards_per_node)
    card = {spec.deployment.card_resource: here}
    ready = "/health" if spec.gateway.engine_key else "/v1/models"
    told: Object = {
        "name": "engine",
        "image": spec.deployment.engine_image,
        "imagePullPolicy": "IfNotPresent",
        "args": _args(spec, pool),
        "env": _environment(spec, pool),
        "ports": [{"name": "http", "containerPort": ENGINE_PORT}],
        "resources": {
            "requests": {"cpu": str(4 * here), "memory": f"{32 * here}Gi", **card},
            "limits": {"memory": f"{64 * here}Gi", **card},
        },
        "securityContext": container_security(),
        "volumeMounts": [
            {
                "name": "weights",
                "mountPath": spec.deployment.volume.mount,
                **({"readOnly": True} if is_on_the_volume(spec, pool) else {}),
            },
            {"name": "cache", "mountPath": CACHE},
            {"name": "temporary", "mountPath": "/tmp"},
            *([{"name": "shm", "mountPath": "/dev/shm"}] if spec.cards_of(pool) > 1 else []),
        ],
    }
    if role == "worker":
        return told
    return {
        **told,
        "startupProbe": probe("/health", PROBE_S, ceil(spec.lifecycle.ready.within_s / PROBE_S)),
        "readinessProbe": probe(ready, PROBE_S, 3),
        "livenessProbe": probe("/health", PROBE_S, 6),
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(GONE_S)]}}},
    }


def _args(spec: ClusterSpec, pool: Pool) -> list[str]:
    engine, weights = spec.engine_of(pool), spec.weights_of(pool)
    told = ["--model", model_of(spec, pool), "--served-model-name", spec.model_of(pool)]
    told += ["--host", "0.0.0.0", "--port", str(ENGINE_PORT)]
    if weights.revision:
        told += ["--revision", weights.revision]
    told += vllm_flags(engine, Flavour.GPU)
    told += ["--shutdown-timeout", str(ceil(spec.lifecycle.drain_s)), "--disable-uvicorn-access-log"]
    return [*told, *engine.extra_args]


def _environment(spec: ClusterSpec, pool: Pool) -> list[Object]:
    own = pool.engine.over(spec.engine).environment
    quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HOME": CACHE}
    hub = (
        {"HF_HUB_OFFLINE": "1"}
        if is_on_the_volume(spec, pool)
        else {"HF_HOME": f"{spec.deployment.volume.mount}/hub"}
    )
    told: list[Object] = [{"name": name, "value": value} for name, value in (quiet | hub).items()]
    if spec.gateway.engine_key:
        told.append(_from_secret("VLLM_API_KEY", "engine-key"))
    for name, value in own.items():
        told.append(
            _from_secret(name, secret_key(name))
            if isinstance(value, Secret)
            else {"name": name, "value": value}
        )
    return told


def secret_key(name: str) -> str:
    """What a variable's secret is called in the Secret."""
    return name.lower().replace("_", "-")


def _from_secret(name: str, key: str) -> Object:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": SECRETS, "key": key}}}
