"""Whose files a cluster file can be rendered as."""

from __future__ import annotations

from collections.abc import Callable

from kilocard.deploy import grafana, haproxy, kubernetes, prometheus, ray_serve
from kilocard.errors import KilocardError, near_match
from kilocard.specs.cluster import ClusterSpec

Files = dict[str, str]
"""Path → text."""


def rendered(spec: ClusterSpec, target: str) -> Files:
    """The files of one target; KilocardError where there is no such one."""
    render = TARGETS.get(target)
    if render is None:
        raise KilocardError(f"{target} is no target: {near_match(target, TARGETS)}")
    return render(spec)


def _kubernetes(spec: ClusterSpec) -> Files:
    return kubernetes.render(spec) | prometheus.operator_files(spec)


TARGETS: dict[str, Callable[[ClusterSpec], Files]] = {
    "kubernetes": _kubernetes,
    "haproxy": lambda spec: {"haproxy.cfg": haproxy.render(spec)},
    "prometheus": prometheus.render,
    "grafana": lambda spec: {"dashboard.json": grafana.render(spec)},
    "ray-serve": lambda spec: {"ray_serve.yaml": ray_serve.render(spec)},
}
