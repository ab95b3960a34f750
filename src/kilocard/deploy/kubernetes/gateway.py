"""The gateways: as many as the file says, each with a number of its own."""

from __future__ import annotations

from math import ceil

from kilocard.deploy.kubernetes.gateway_config import CLUSTER, CONFIG, FILES, KEYS, NAME
from kilocard.deploy.kubernetes.names import Object, labels, meta, priority_class, selector
from kilocard.deploy.kubernetes.pods import (
    GATEWAY_PORT,
    METRICS_PORT,
    SECRETS,
    container_security,
    pod_security,
    probe,
)
from kilocard.specs.cluster import ClusterSpec
from kilocard.specs.cluster.placement import HOST

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


def disruption_budget(spec: ClusterSpec) -> Object:
    """One gateway at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta(spec, NAME, NAME),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(NAME)}},
    }


def _container(spec: ClusterSpec) -> Object:
    secrets = spec.gateway.keys or spec.gateway.engine_key
    return {
        "name": NAME,
        "image": spec.deployment.gateway_image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "gateway",
            f"{FILES}/{CLUSTER}",
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
        {"name": "cluster", "configMap": {"name": CONFIG}},
        {"name": "temporary", "emptyDir": {"sizeLimit": "1Gi"}},
        *(
            [{"name": "secrets", "secret": {"secretName": SECRETS, "items": mounted, "defaultMode": 0o440}}]
            if secrets
            else []
        ),
    ]
