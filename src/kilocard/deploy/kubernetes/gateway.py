"""The gateways: as many as the file says, each with a number of its own, and the file that they read."""

from __future__ import annotations

from math import ceil
from typing import Any

import yaml

from kilocard.deploy.kubernetes.names import Object, engines_of, labels, meta, priority_class, selector
from kilocard.deploy.kubernetes.pods import (
    ADMIN_PORT,
    ENGINE_PORT,
    GATEWAY_PORT,
    METRICS_PORT,
    SECRETS,
    container_security,
    pod_security,
    probe,
)
from kilocard.specs.cluster import ClusterSpec, Pool
from kilocard.specs.cluster.placement import HOST

NAME = "gateway"
FILES, KEYS = "/etc/kilocard", "/etc/kilocard-secrets"
GONE_S = 10


def gateways(spec: ClusterSpec) -> Object:
    """A StatefulSet, though nothing is stored: each gateway owns its part of every cap, and must know which
    of the N it is."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta(spec, NAME, NAME),
        "spec": {
            "serviceName": f"{NAME}-each",
            "replicas": spec.gateway.gateways,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "minReadySeconds": 5,
            "selector": {"matchLabels": selector(NAME)},
            "template": {
                "metadata": {"labels": labels(spec, NAME)},
                "spec": {
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "priorityClassName": priority_class(spec, "online"),
                    "terminationGracePeriodSeconds": GONE_S + ceil(spec.lifecycle.drain_s) + 15,
                    "securityContext": pod_security(),
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": HOST,
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": selector(NAME)},
                        }
                    ],
                    "containers": [_container(spec)],
                    "volumes": _volumes(spec),
                },
            },
        },
    }


def services(spec: ClusterSpec) -> list[Object]:
    """The door for clients, which spreads connections; and one name a gateway, for those who watch."""
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    each = [{"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics"}]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta(spec, NAME, NAME),
            "spec": {"selector": selector(NAME), "ports": ports},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta(spec, f"{NAME}-each", NAME),
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": selector(NAME),
                "ports": each,
            },
        },
    ]


def config(spec: ClusterSpec) -> Object:
    """The cluster file as the gateways read it: engines are found by their Services' names."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(spec, f"{NAME}-cluster", NAME),
        "data": {"cluster.yaml": yaml.safe_dump(gateway_file(spec), sort_keys=False)},
    }


def gateway_file(spec: ClusterSpec) -> dict[str, Any]:
    """What is in it. Secrets are files that a Secret is mounted as."""
    gateway = spec.gateway.model_dump(mode="json", by_alias=True)
    gateway |= {"host": "0.0.0.0", "port": GATEWAY_PORT, "places": [], "access_log": {"path": None}}
    gateway["metrics"] = {"host": "0.0.0.0", "port": METRICS_PORT}
    gateway["admin"] = {"host": "127.0.0.1", "port": ADMIN_PORT, "keys": None}
    if spec.gateway.keys:
        gateway["keys"] = {"file": f"{KEYS}/keys"}
    elif not spec.gateway.open:
        gateway["open"] = True
    if spec.gateway.engine_key:
        gateway["engine_key"] = {"file": f"{KEYS}/engine-key"}
    pools = [_pool(spec, pool) for pool in spec.pools]
    return {"name": spec.name, "model": spec.model, "pools": pools, "gateway": gateway}


def disruption_budget(spec: ClusterSpec) -> Object:
    """One gateway at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta(spec, NAME, NAME),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(NAME)}},
    }


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


def _container(spec: ClusterSpec) -> Object:
    secrets = spec.gateway.keys or spec.gateway.engine_key
    return {
        "name": NAME,
        "image": spec.deployment.gateway_image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "gateway",
            f"{FILES}/cluster.yaml",
            "--number",
            "$(GATEWAY_NUMBER)",
            "--one-a-machine",
            "--drain-s",
            str(ceil(spec.lifecycle.drain_s)),
        ],
        "env": [
            {
                "name": "GATEWAY_NUMBER",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}},
            },
            {"name": "HOME", "value": "/tmp"},
        ],
        "ports": [
            {"name": "http", "containerPort": GATEWAY_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
        "startupProbe": probe("/health", 2, 30),
        "readinessProbe": probe("/ready", 2, 2),
        "livenessProbe": probe("/health", 10, 6),
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(GONE_S)]}}},
        "resources": {
            "requests": {"cpu": "1", "memory": "1Gi"},
            "limits": {"memory": "4Gi"},
        },
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "cluster", "mountPath": FILES, "readOnly": True},
            {"name": "temporary", "mountPath": "/tmp"},
            *([{"name": "secrets", "mountPath": KEYS, "readOnly": True}] if secrets else []),
        ],
    }


def _volumes(spec: ClusterSpec) -> list[Object]:
    secrets = spec.gateway.keys or spec.gateway.engine_key
    mounted = [
        {"key": name, "path": name}
        for name, there in (("keys", spec.gateway.keys), ("engine-key", spec.gateway.engine_key))
        if there
    ]
    return [
        {"name": "cluster", "configMap": {"name": f"{NAME}-cluster"}},
        {"name": "temporary", "emptyDir": {"sizeLimit": "1Gi"}},
        *(
            [{"name": "secrets", "secret": {"secretName": SECRETS, "items": mounted, "defaultMode": 0o440}}]
            if secrets
            else []
        ),
    ]
