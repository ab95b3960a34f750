"""Alert rules, each with a story that must set it off and one that must not."""

from __future__ import annotations

from collections.abc import Iterator

from kilocard.deploy.prometheus.alert import Alert
from kilocard.deploy.prometheus.pool_alerts import errors, late, line, missing, uneven
from kilocard.deploy.prometheus.replica_alerts import engine_queues, pressure, slow, stale
from kilocard.specs.cluster import ClusterSpec


def alerts(spec: ClusterSpec) -> Iterator[Alert]:
    """Those of a cluster file: its thresholds, its promises, its pools."""
    yield uneven(spec)
    yield from late(spec)
    yield line(spec)
    yield from missing(spec)
    yield errors(spec)
    yield pressure(spec)
    yield slow(spec)
    yield from stale(spec)
    yield engine_queues(spec)
