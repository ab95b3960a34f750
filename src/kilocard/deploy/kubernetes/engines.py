"""A pool's engines: a Deployment where a replica fits a node, a LeaderWorkerSet where it does not."""

from __future__ import annotations

from math import ceil

from kilocard.deploy.kubernetes.engine_container import GONE_S
from kilocard.deploy.kubernetes.engine_group import leader_worker_set, spans
from kilocard.deploy.kubernetes.engine_pod import RANK, engine_pod, grace_s
from kilocard.deploy.kubernetes.names import Object, engines_of, meta, selector
from kilocard.deploy.kubernetes.pods import ENGINE_PORT
from kilocard.errors import KilocardError
from kilocard.lifecycle import batch_size
from kilocard.specs.cluster import ClusterSpec, Pool

__all__ = ["GONE_S", "disruption_budget", "engines", "grace_s", "service"]


def engines(spec: ClusterSpec, pool: Pool) -> Object:
    """The object that runs a pool's engines."""
    if pool.card is None:
        raise KilocardError(
            f"pool {pool.name} names no card, and a cluster has many: give card, an id of `kilocard facts`"
        )
    if spans(spec, pool):
        return leader_worker_set(spec, pool)
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
            "template": engine_pod(spec, pool, name),
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
            "selector": selector(name) | ({RANK: "leader"} if spans(spec, pool) else {}),
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
