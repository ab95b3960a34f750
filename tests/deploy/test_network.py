"""Who may speak to whom, asked of the rendered policies as Kubernetes would: both ends must allow it."""

from __future__ import annotations

from typing import Any

import pytest

from kilocard.deploy.kubernetes.names import engines_of, selector
from kilocard.deploy.kubernetes.network import policies
from kilocard.specs.cluster import ClusterSpec, cluster_from

Pod = tuple[dict[str, str], str]
"""Its labels, and its namespace's name."""
HOME = "here"
GATEWAY: Pod = (selector("gateway"), HOME)
PROMETHEUS: Pod = ({}, "monitoring")
STRANGER: Pod = ({}, HOME)
OUTSIDE: Pod = ({}, "")
"""No pod: a hub, an engine on another network."""


def cluster(**pool: Any) -> ClusterSpec:
    own = {"name": "chat", "card": "h100-sxm", "replicas": 2, "weights": {"path": "/models/m"}, **pool}
    return cluster_from(
        {"name": HOME, "model": "qwen3-8b", "pools": [own], "gateway": {"open": True, "host": "0.0.0.0"}}
    )


ONE_NODE = cluster()
GROUPS = cluster(nodes=4, engine={"tensor_parallel_size": 8, "pipeline_parallel_size": 2})
HUB = cluster(weights={"path": "Qwen/Qwen3-8B"})


def engine(spec: ClusterSpec) -> Pod:
    return selector(engines_of(spec.pools[0])), HOME


def may_speak(spec: ClusterSpec, one: Pod, other: Pod, port: int, protocol: str = "TCP") -> bool:
    ours = policies(spec)
    says = _allows(ours, one, other, port, protocol, "egress", "to")
    return says and _allows(ours, other, one, port, protocol, "ingress", "from")


def _allows(
    ours: list[Any], pod: Pod, peer: Pod, port: int, protocol: str, direction: str, side: str
) -> bool:
    """A pod that no policy chooses is open; else one of those that choose it must have a rule for this."""
    chosen = [its["spec"] for its in ours if pod[1] == HOME and _has(pod, its["spec"]["podSelector"])]
    return not chosen or any(
        _is_port(rule, port, protocol) and _is_peer(rule.get(side), peer)
        for spec in chosen
        for rule in spec.get(direction, [])
    )


def _has(pod: Pod, chooser: dict[str, Any]) -> bool:
    return chooser.get("matchLabels", {}).items() <= pod[0].items()


def _is_port(rule: dict[str, Any], port: int, protocol: str) -> bool:
    return "ports" not in rule or {"protocol": protocol, "port": port} in rule["ports"]


def _is_peer(peers: list[Any] | None, pod: Pod) -> bool:
    return peers is None or any(_is_one(peer, pod) for peer in peers)


def _is_one(peer: dict[str, Any], pod: Pod) -> bool:
    wanted = peer.get("namespaceSelector")
    if wanted is None:
        return pod[1] == HOME and _has(pod, peer["podSelector"])
    here = {"kubernetes.io/metadata.name": pod[1]}
    return bool(pod[1]) and wanted["matchLabels"].items() <= here.items()


@pytest.mark.parametrize("spec", [ONE_NODE, GROUPS, HUB])
def test_engines_hear_gateways_and_prometheus_alone(spec: ClusterSpec) -> None:
    assert may_speak(spec, GATEWAY, engine(spec), 8000)
    assert may_speak(spec, PROMETHEUS, engine(spec), 8000)
    assert may_speak(spec, PROMETHEUS, GATEWAY, 9400) and may_speak(spec, OUTSIDE, GATEWAY, 8080)
    assert not may_speak(spec, STRANGER, engine(spec), 8000)
    assert not may_speak(spec, OUTSIDE, engine(spec), 8000)
    assert not may_speak(spec, GATEWAY, engine(spec), 22)
    assert not may_speak(spec, OUTSIDE, GATEWAY, 9600) and not may_speak(spec, engine(spec), GATEWAY, 8080)


@pytest.mark.parametrize("spec", [ONE_NODE, GROUPS, HUB])
def test_all_may_ask_for_names(spec: ClusterSpec) -> None:
    for pod in (GATEWAY, engine(spec)):
        assert may_speak(spec, pod, ({}, "kube-system"), 53, "UDP")


def test_the_nodes_of_one_replica_speak_to_each_other_and_others_do_not() -> None:
    assert may_speak(GROUPS, engine(GROUPS), engine(GROUPS), 6379)
    assert not may_speak(ONE_NODE, engine(ONE_NODE), engine(ONE_NODE), 6379)


def test_an_engine_reaches_a_hub_where_its_weights_come_from_there() -> None:
    assert may_speak(HUB, engine(HUB), OUTSIDE, 443)
    assert not may_speak(ONE_NODE, engine(ONE_NODE), OUTSIDE, 443)


def test_a_gateway_reaches_engines_that_somebody_else_runs() -> None:
    listed = cluster(replicas=["http://10.1.2.3:8001", "http://engines.example:8002"])
    found = cluster(replicas={"dns": "engines.example", "port": 8003})
    assert may_speak(listed, GATEWAY, OUTSIDE, 8001) and may_speak(listed, GATEWAY, OUTSIDE, 8002)
    assert may_speak(found, GATEWAY, OUTSIDE, 8003)
    assert not may_speak(ONE_NODE, GATEWAY, OUTSIDE, 8001)
