"""How many replicas, by what waits at the gateways: an engine behind one that holds back never queues."""

from __future__ import annotations

from math import ceil

from kilocard.deploy.kubernetes.engine_group import spans
from kilocard.deploy.kubernetes.names import Object, engines_of, meta
from kilocard.specs.cluster import ClusterSpec, Pool

PROMETHEUS = "http://prometheus-operated.monitoring.svc.cluster.local:9090"
POLL_S = 15


def scaled_object(spec: ClusterSpec, pool: Pool) -> Object | None:
    """KEDA's, for a pool that scales: up by requests in flight and in line over the caps at the wanted
    utilization, down slowly."""
    if pool.scaling is None:
        return None
    scaling, name = pool.scaling, engines_of(pool)
    each = scaling.up.utilization * pool.cap
    load = f'sum(kilocard:in_flight{{pool="{pool.name}"}}) + sum(kilocard:waiting{{pool="{pool.name}"}})'
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": meta(spec, name, name),
        "spec": {
            "scaleTargetRef": _target(spec, pool),
            "minReplicaCount": scaling.least,
            "maxReplicaCount": scaling.most,
            "pollingInterval": POLL_S,
            "cooldownPeriod": ceil(scaling.down.for_s),
            "fallback": {"failureThreshold": 4, "replicas": pool.count or scaling.least},
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behaviour(pool)}},
            "triggers": [
                {
                    "type": "prometheus",
                    "metricType": "AverageValue",
                    "metadata": {
                        "serverAddress": PROMETHEUS,
                        "query": load,
                        "threshold": f"{each:g}",
                        "ignoreNullValues": "false",
                    },
                }
            ],
        },
    }


def _target(spec: ClusterSpec, pool: Pool) -> Object:
    is_group = spans(spec, pool)
    kind = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet") if is_group else ("apps/v1", "Deployment")
    return {"apiVersion": kind[0], "kind": kind[1], "name": engines_of(pool)}


def _behaviour(pool: Pool) -> Object:
    assert pool.scaling is not None
    up, down = pool.scaling.up, pool.scaling.down
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": min(3600, ceil(up.grows_s)),
            "policies": [
                {
                    "type": "Pods",
                    "value": up.step,
                    "periodSeconds": min(1800, ceil(pool.scaling.cold_start_s)),
                }
            ],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": min(3600, ceil(down.for_s)),
            "policies": [{"type": "Pods", "value": down.step, "periodSeconds": 300}],
        },
    }
