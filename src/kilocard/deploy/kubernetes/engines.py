"""A pool's engines: a Deployment where a replica fits a node, a LeaderWorkerSet where it does not."""

from __future__ import annotations

from math import ceil
from typing import Any

from kilocard import facts
from kilocard.deploy.kubernetes.names import Object, engines_of, labels, meta, priority_class, selector
from kilocard.deploy.kubernetes.pods import (
    CACHE,
    ENGINE_PORT,
    SECRETS,
    container_security,
    pod_security,
    probe,
)
from kilocard.deploy.kubernetes.weights import verifier, volume_claim
from kilocard.errors import KilocardError
from kilocard.launch.command import Flavour, vllm_flags
from kilocard.lifecycle import batch_size
from kilocard.specs.cluster import ClusterSpec, Pool, Secret
from kilocard.specs.cluster.placement import HOST
from kilocard.specs.cluster.pools import LENDING

PRODUCTS = {
    "a100-sxm-80gb": "NVIDIA-A100-SXM4-80GB",
    "h100-sxm": "NVIDIA-H100-80GB-HBM3",
    "h100-pcie": "NVIDIA-H100-PCIe",
    "h200-sxm": "NVIDIA-H200",
    "b200-sxm": "NVIDIA-B200",
    "l40s": "NVIDIA-L40S",
    "l4": "NVIDIA-L4",
}
"""A card's name as nvidia-smi tells it, dashes for spaces: so NVIDIA's feature discovery labels nodes."""
GONE_S = 15
"""Seconds from a pod's end in the endpoints until every gateway has asked the name again."""
PROBE_S = 10


def engines(spec: ClusterSpec, pool: Pool) -> Object:
    """The object that runs a pool's engines."""
    if pool.card is None:
        raise KilocardError(
            f"pool {pool.name} names no card, and a cluster has many: give card, an id of `kilocard facts`"
        )
    if spec.cards_of(pool) > pool.cards_per_node:
        return _leader_worker_set(spec, pool)
    name = engines_of(pool)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(spec, name, name),
        "spec": {
            **({} if pool.scaling else {"replicas": pool.count or 1}),
            "minReadySeconds": ceil(spec.lifecycle.roll.verify_s),
            "progressDeadlineSeconds": ceil(spec.lifecycle.ready.within_s) + 600,
            "revisionHistoryLimit": 5,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {
                    "maxSurge": 0,
                    "maxUnavailable": batch_size(pool.count or 1, spec.lifecycle.roll.share),
                },
            },
            "selector": {"matchLabels": selector(name)},
            "template": _template(spec, pool, name),
        },
    }


def service(spec: ClusterSpec, pool: Pool) -> Object:
    """A name with the address of each engine that is ready: no balancing, that is the gateway's."""
    name = engines_of(pool)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(spec, name, name),
        "spec": {
            "clusterIP": "None",
            "selector": selector(name) | ({"kilocard.dev/rank": "leader"} if _spans(spec, pool) else {}),
            "ports": [{"name": "http", "port": ENGINE_PORT, "targetPort": "http"}],
        },
    }


def disruption_budget(spec: ClusterSpec, pool: Pool) -> Object:
    """How many may be taken away at once by whoever empties nodes."""
    name = engines_of(pool)
    most = batch_size(pool.count or 1, spec.lifecycle.roll.share)
    bound = {"minAvailable": pool.min_warm} if pool.min_warm else {"maxUnavailable": most}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta(spec, name, name),
        "spec": {**bound, "selector": {"matchLabels": selector(name)}},
    }


def _template(spec: ClusterSpec, pool: Pool, name: str, role: str = "") -> Object:
    own = spec.deployment
    rank = {"kilocard.dev/rank": role} if role else {}
    return {
        "metadata": {"labels": {**labels(spec, name, pool.version), **rank}},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "priorityClassName": priority_class(spec, "offline" if pool.role in LENDING else "online"),
            "terminationGracePeriodSeconds": grace_s(spec),
            **({"runtimeClassName": own.runtime_class} if own.runtime_class else {}),
            "securityContext": pod_security(),
            "nodeSelector": {spec.placement.card: card_value(spec, pool)},
            "tolerations": [{"key": key, "operator": "Exists"} for key in own.tolerations],
            "topologySpreadConstraints": _spread(spec, name),
            "initContainers": verifier(spec, pool),
            "containers": [_container(spec, pool, role)],
            "volumes": _volumes(spec, pool),
        },
    }


def grace_s(spec: ClusterSpec) -> int:
    """More than the sleep, the drain and the end together: who is killed before loses what it holds."""
    its = spec.lifecycle
    return GONE_S + ceil(its.drain_s) + ceil(its.stop_s) + 10


def _container(spec: ClusterSpec, pool: Pool, role: str) -> Object:
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


def card_value(spec: ClusterSpec, pool: Pool) -> str:
    """What the nodes' label says of a pool's card."""
    told = spec.placement.card_values.get(pool.card or "") or PRODUCTS.get(pool.card or "")
    if told is None:
        raise KilocardError(
            f"pool {pool.name}: what a node's label {spec.placement.card} says of {pool.card} is not known: "
            f"placement: {{card_values: {{{pool.card}: VALUE}}}}, as `kubectl get nodes --show-labels` has it"
        )
    return told


def model_of(spec: ClusterSpec, pool: Pool) -> str:
    """What vLLM is given: a folder, or the hub's id of a model that the catalogue knows by another name."""
    model = spec.engine_of(pool).model
    if model.startswith("/") or "/" in model:
        return model
    known = facts.models().get(model)
    if known is None or not known.huggingface_id:
        raise KilocardError(
            f"pool {pool.name}: {model} is no folder and no id of a hub: name its weights, "
            f"weights: {{path: /models/{model}}}"
        )
    return known.huggingface_id


def is_on_the_volume(spec: ClusterSpec, pool: Pool) -> bool:
    """Whether the weights lie there already; else the volume is the hub's cache, filled once."""
    return model_of(spec, pool).startswith("/")


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


def _spread(spec: ClusterSpec, name: str) -> list[Object]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway" if key == HOST else "DoNotSchedule",
            "labelSelector": {"matchLabels": selector(name)},
        }
        for key in spec.placement.apart
    ]


def _volumes(spec: ClusterSpec, pool: Pool) -> list[Object]:
    shm = {"medium": "Memory", "sizeLimit": f"{spec.deployment.shm_gib:g}Gi"}
    return [
        {
            "name": "weights",
            "persistentVolumeClaim": {
                "claimName": volume_claim(spec),
                **({"readOnly": True} if is_on_the_volume(spec, pool) else {}),
            },
        },
        {"name": "cache", "emptyDir": {"sizeLimit": "20Gi"}},
        {"name": "temporary", "emptyDir": {"sizeLimit": "5Gi"}},
        *([{"name": "shm", "emptyDir": shm}] if spec.cards_of(pool) > 1 else []),
    ]


def _spans(spec: ClusterSpec, pool: Pool) -> bool:
    return spec.cards_of(pool) > pool.cards_per_node


def _leader_worker_set(spec: ClusterSpec, pool: Pool) -> Object:
    """One replica over several nodes: its leader answers, its workers compute; they come and go together."""
    name = engines_of(pool)
    size = spec.cards_of(pool) // pool.cards_per_node
    together: dict[str, Any] = (
        {"annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": spec.placement.together}}
        if spec.placement.together
        else {}
    )
    leader, worker = _template(spec, pool, name, "leader"), _template(spec, pool, name, "worker")
    start = "/vllm-workspace/examples/online_serving/multi-node-serving.sh"
    _run(leader, f"bash {start} leader --ray_cluster_size={size}", spec, pool)
    _run(worker, f"exec bash {start} worker --ray_address=$(LWS_LEADER_ADDRESS)", spec, pool)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": meta(spec, name, name, **together),
        "spec": {
            "replicas": pool.count or 1,
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {
                    "maxSurge": 0,
                    "maxUnavailable": batch_size(pool.count or 1, spec.lifecycle.roll.share),
                },
            },
            "leaderWorkerTemplate": {
                "size": size,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": leader,
                "workerTemplate": worker,
            },
        },
    }


def _run(template: Object, start: str, spec: ClusterSpec, pool: Pool) -> None:
    """Ray joins the nodes of a replica before its leader serves."""
    container = template["spec"]["containers"][0]
    serves = "leader" in start
    flags = " ".join(
        f"'{word}'" for word in [*container.pop("args"), "--distributed-executor-backend", "ray"]
    )
    container["command"] = ["bash", "-c"]
    container["args"] = [f"{start} && exec vllm serve {flags}" if serves else start]
