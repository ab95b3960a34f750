"""What all pods have in common: nobody is root, nothing is writable that need not be."""

from __future__ import annotations

from kilocard.deploy.kubernetes.names import Object

ENGINE_PORT, GATEWAY_PORT, ADMIN_PORT, METRICS_PORT = 8000, 8080, 9600, 9400
USER = 10_001
CACHE = "/cache"
SECRETS = "kilocard-secrets"
PROBE_TIMEOUT_S = 5


def pod_security() -> Object:
    """Of a pod as a whole."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Object:
    """Of each container in it."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def probe(path: str, every_s: int, failures: int, port: str = "http") -> Object:
    """Asked over HTTP."""
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": every_s,
        "timeoutSeconds": PROBE_TIMEOUT_S,
        "failureThreshold": max(1, failures),
    }
