"""Replicas over several nodes each: a LeaderWorkerSet."""

from __future__ import annotations

import shlex

from kilocard.deploy.kubernetes.engine_pod import engine_pod
from kilocard.deploy.kubernetes.names import Object, engines_of, meta
from kilocard.lifecycle import batch_size
from kilocard.specs.cluster import ClusterSpec, Pool

START = "/vllm-workspace/examples/online_serving/multi-node-serving.sh"


def spans(spec: ClusterSpec, pool: Pool) -> bool:
    """Whether a replica takes more cards than a node has."""
    return spec.cards_of(pool) > pool.cards_per_node


def leader_worker_set(spec: ClusterSpec, pool: Pool) -> Object:
    """One replica over several nodes: its leader answers, its workers compute; they come and go together."""
    name = engines_of(pool)
    size = spec.cards_of(pool) // pool.cards_per_node
    leader, worker = engine_pod(spec, pool, name, "leader"), engine_pod(spec, pool, name, "worker")
    _serve_together(leader, f"bash {START} leader --ray_cluster_size={size}")
    _join(worker, f"exec bash {START} worker --ray_address=$(LWS_LEADER_ADDRESS)")
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": meta(spec, name, name),
        "spec": {
            **({} if pool.scaling else {"replicas": pool.count or 1}),
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


def _serve_together(leader: Object, start: str) -> None:
    """Ray joins the nodes of a replica before its leader serves."""
    container = leader["spec"]["containers"][0]
    flags = shlex.join([*container["args"], "--distributed-executor-backend", "ray"])
    container |= {"command": ["bash", "-c"], "args": [f"{start} && exec vllm serve {flags}"]}


def _join(worker: Object, start: str) -> None:
    """It is told by its leader what to compute."""
    worker["spec"]["containers"][0] |= {"command": ["bash", "-c"], "args": [start]}
