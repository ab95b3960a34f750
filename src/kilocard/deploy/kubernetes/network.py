"""Who may speak to whom: engines hear the gateways, Prometheus and their own replica, and nobody else."""

from __future__ import annotations

from kilocard.deploy.kubernetes.engine_group import spans
from kilocard.deploy.kubernetes.gateway_config import NAME
from kilocard.deploy.kubernetes.names import Object, engines_of, meta, selector
from kilocard.deploy.kubernetes.pods import ENGINE_PORT, GATEWAY_PORT, METRICS_PORT
from kilocard.deploy.kubernetes.weights import is_on_the_volume
from kilocard.specs.cluster import ClusterSpec, Pool

MONITORING = {"kubernetes.io/metadata.name": "monitoring"}
DNS_PORT, HUB_PORT = 53, 443


def policies(spec: ClusterSpec) -> list[Object]:
    """One for all pods that shuts everything, one each that opens what is needed."""
    return [
        _policy(spec, "closed", {}, [], []),
        _policy(spec, NAME, selector(NAME), _gateway_hears(), [_names(), *_to_engines(spec)]),
        *(
            _policy(spec, name, selector(name), _engine_hears(spec, pool), _engine_says(spec, pool))
            for pool in spec.pools
            if pool.count
            for name in [engines_of(pool)]
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


def _engine_hears(spec: ClusterSpec, pool: Pool) -> list[Object]:
    """Gateways and Prometheus at its door; the other nodes of its replica on any port."""
    doors = {
        "from": [
            {"podSelector": {"matchLabels": selector(NAME)}},
            {"namespaceSelector": {"matchLabels": MONITORING}},
        ],
        "ports": [_port(ENGINE_PORT)],
    }
    return [doors, {"from": _own(pool)}] if spans(spec, pool) else [doors]


def _engine_says(spec: ClusterSpec, pool: Pool) -> list[Object]:
    """Something to the other nodes of its replica; to a hub, where its weights come from there."""
    told = [_names()]
    if spans(spec, pool):
        told.append({"to": _own(pool)})
    if not is_on_the_volume(spec, pool):
        told.append({"ports": [_port(HUB_PORT)]})
    return told


def _to_engines(spec: ClusterSpec) -> list[Object]:
    """Those of this cluster by their labels; those that somebody else runs, wherever they are, by their
    ports."""
    told: list[Object] = [
        {"to": _own(pool), "ports": [_port(ENGINE_PORT)]} for pool in spec.pools if pool.count
    ]
    elsewhere = {pool.discovery.port for pool in spec.pools if pool.discovery}
    elsewhere |= {its.port for pool in spec.pools if not pool.count for its in pool.replicas}
    return [*told, {"ports": [_port(port) for port in sorted(elsewhere)]}] if elsewhere else told


def _own(pool: Pool) -> list[Object]:
    return [{"podSelector": {"matchLabels": selector(engines_of(pool))}}]


def _names() -> Object:
    return {
        "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
        "ports": [{"protocol": protocol, "port": DNS_PORT} for protocol in ("UDP", "TCP")],
    }


def _port(number: int) -> Object:
    return {"protocol": "TCP", "port": number}
