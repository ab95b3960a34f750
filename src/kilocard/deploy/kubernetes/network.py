"""Who may speak to whom: engines hear the gateways and Prometheus, and nobody else."""

from __future__ import annotations

from kilocard.deploy.kubernetes.gateway_config import NAME
from kilocard.deploy.kubernetes.names import Object, engines_of, meta, selector
from kilocard.deploy.kubernetes.pods import ENGINE_PORT, GATEWAY_PORT, METRICS_PORT
from kilocard.specs.cluster import ClusterSpec

MONITORING = {"kubernetes.io/metadata.name": "monitoring"}
DNS_PORT = 53


def policies(spec: ClusterSpec) -> list[Object]:
    """One for all pods that shuts everything, one each that opens what is needed."""
    return [
        _policy(spec, "closed", {}, [], []),
        _policy(spec, NAME, selector(NAME), _gateway_hears(), [_names(), *_to_engines(spec)]),
        *(
            _policy(
                spec,
                engines_of(pool),
                selector(engines_of(pool)),
                _engine_hears(),
                [_names(), _among(pool_name)],
            )
            for pool in spec.pools
            if pool.count
            for pool_name in [engines_of(pool)]
        ),
    ]


def _policy(
    spec: ClusterSpec, name: str, chosen: dict[str, str], hears: list[Object], says: list[Object]
) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta(spec, name, name),
        "spec": {
            "podSelector": {"matchLabels": chosen} if chosen else {},
            "policyTypes": ["Ingress", "Egress"],
            **({"ingress": hears} if hears else {}),
            **({"egress": says} if says else {}),
        },
    }


def _gateway_hears() -> list[Object]:
    """Clients from anywhere at its door; Prometheus at its metrics."""
    return [
        {"ports": [_port(GATEWAY_PORT)]},
        {"from": [{"namespaceSelector": {"matchLabels": MONITORING}}], "ports": [_port(METRICS_PORT)]},
    ]


def _engine_hears() -> list[Object]:
    return [
        {
            "from": [
                {"podSelector": {"matchLabels": selector(NAME)}},
                {"namespaceSelector": {"matchLabels": MONITORING}},
            ],
            "ports": [_port(ENGINE_PORT)],
        }
    ]


def _to_engines(spec: ClusterSpec) -> list[Object]:
    return [
        {
            "to": [{"podSelector": {"matchLabels": selector(engines_of(pool))}}],
            "ports": [_port(ENGINE_PORT)],
        }
        for pool in spec.pools
        if pool.count
    ]


def _among(name: str) -> Object:
    """The nodes of one replica speak to each other, on any port."""
    return {"to": [{"podSelector": {"matchLabels": selector(name)}}]}


def _names() -> Object:
    return {
        "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
        "ports": [{"protocol": protocol, "port": DNS_PORT} for protocol in ("UDP", "TCP")],
    }


def _port(number: int) -> Object:
    return {"protocol": "TCP", "port": number}
