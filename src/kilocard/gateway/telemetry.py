"""What the gateway counts, and the page that Prometheus reads: names without colons, bounded in number.

Labels come from the cluster file and from fixed sets, never from a request: no client can make series.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from kilocard.gateway.call import Call
from kilocard.gateway.pool import Pool
from kilocard.specs.cluster import CLASSES

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
TOKEN_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5)
BY_POOL = ("model", "pool", "priority")
BY_REPLICA = ("model", "pool", "replica")
Key = tuple[str, ...]


class Waiting(Protocol):
    """A pool's line."""

    def __len__(self) -> int: ...


class Histogram:
    """Counts under bounds, by labels."""

    __slots__ = ("_bounds", "_counts", "_sums")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts: dict[Key, list[int]] = {}
        self._sums: Counter[Key] = Counter()

    def observe(self, key: Key, seconds: float) -> None:
        """One more."""
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * (len(self._bounds) + 1)
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[key] += seconds  # type: ignore[assignment]

    def family(self, name: str, about: str, labels: tuple[str, ...]) -> HistogramMetricFamily:
        """As Prometheus has it: cumulative."""
        family = HistogramMetricFamily(name, about, labels=labels)
        for key, counts in self._counts.items():
            total, buckets = 0, []
            for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric(list(key), buckets, self._sums[key])
        return family


@dataclass(slots=True)
class Telemetry:
    """Filled when calls end; read when somebody scrapes."""

    requests: Counter[Key] = field(default_factory=Counter)
    tokens: Counter[Key] = field(default_factory=Counter)
    refusals: Counter[Key] = field(default_factory=Counter)
    retries: Counter[Key] = field(default_factory=Counter)
    probes: Counter[Key] = field(default_factory=Counter)
    ttft: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    waited: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    took: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    tpot: Histogram = field(default_factory=lambda: Histogram(TOKEN_SECONDS))

    def note(self, call: Call) -> None:
        """A call has ended."""
        model, pool, rank = call.model, call.pool.name if call.pool else "", CLASSES[call.rank]
        replica = call.tried[-1].id if call.tried else ""
        by_pool, by_replica = (model, pool, rank), (model, pool, replica)
        self.requests[model, pool, replica, rank, str(call.outcome)] += 1
        self.took.observe(by_pool, call.ended_s - call.arrived_s)
        if call.sent_s:
            self.waited.observe(by_pool, call.sent_s - call.arrived_s)
        if call.retries:
            self.retries[by_replica] += call.retries
        if call.tokens:
            self.tokens[by_replica] += call.tokens
        if call.has_streamed:
            self.ttft.observe(by_pool, call.first_s - call.arrived_s)
            if call.tpot_s:
                self.tpot.observe(by_replica, call.tpot_s)


@dataclass(frozen=True, slots=True)
class Scene:
    """What is read at the moment of a scrape."""

    telemetry: Telemetry
    pools: Iterable[tuple[Pool, Waiting]]
    states: dict[str, str]
    connections: int
    is_draining: bool


class _Scrape(Collector):
    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def collect(self) -> Iterator[Metric]:
        yield from _counted(self._scene.telemetry)
        yield from _present(self._scene)


def metrics_page(scene: Scene) -> bytes:
    """The page, in Prometheus's text form."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(scene))
    return generate_latest(registry)


def _counted(telemetry: Telemetry) -> Iterator[Metric]:
    named = (
        ("requests", "Requests by how they ended", telemetry.requests, (*BY_REPLICA, "priority", "status")),
        ("output_tokens", "Tokens that engines wrote", telemetry.tokens, BY_REPLICA),
        ("refusals", "Requests that no engine saw, by reason", telemetry.refusals, ("model", "reason")),
        ("retries", "Second tries, before a first byte", telemetry.retries, BY_REPLICA),
        ("probes", "Tiny completions that test health", telemetry.probes, ("replica", "result")),
    )
    for name, about, counts, labels in named:
        family = CounterMetricFamily(f"kilocard_gateway_{name}", about, labels=labels)
        for key, count in counts.items():
            family.add_metric(list(key), count)
        yield family
    first = "Seconds from a request's arrival to its first token"
    yield telemetry.ttft.family("kilocard_gateway_time_to_first_token_seconds", first, BY_POOL)
    line = "Seconds that a request waited for a replica"
    yield telemetry.waited.family("kilocard_gateway_queue_time_seconds", line, BY_POOL)
    whole = "Seconds from a request's arrival to its end"
    yield telemetry.took.family("kilocard_gateway_request_seconds", whole, BY_POOL)
    pace = "Seconds between the tokens of a stream, its mean"
    yield telemetry.tpot.family("kilocard_gateway_time_per_output_token_seconds", pace, BY_REPLICA)


def _present(scene: Scene) -> Iterator[Metric]:
    line = GaugeMetricFamily(
        "kilocard_gateway_waiting", "Requests in a pool's line", labels=("model", "pool")
    )
    columns = {
        name: GaugeMetricFamily(f"kilocard_gateway_replica_{name}", about, labels=BY_REPLICA)
        for name, about in (
            ("in_flight", "Requests in flight, by the gateway's own count"),
            ("weight", "Share of its part that a replica gets"),
            ("cap", "The most in flight; 0 is no limit"),
            ("tpot_seconds", "Rolling seconds an output token; 0 is unknown"),
            ("kv_free_ratio", "Free share of the KV cache, as last scraped"),
        )
    }
    state = GaugeMetricFamily(
        "kilocard_gateway_replica_state",
        "1 for the state that a replica is in",
        labels=(*BY_REPLICA, "state"),
    )
    for pool, waiting in scene.pools:
        line.add_metric([pool.model, pool.name], len(waiting))
        table = pool.replicas
        shown = (table.active, table.share, table.cap, table.tpot_s, table.kv_free)
        for member in pool.members:
            labels = [pool.model, pool.name, member.id]
            for (name, family), column in zip(columns.items(), shown, strict=True):
                if name != "kv_free_ratio" or member.kv_seen_s:
                    family.add_metric(labels, float(column[member.row]))
            state.add_metric([*labels, scene.states.get(member.id, "up")], 1.0)
    yield line
    yield from columns.values()
    yield state
    yield GaugeMetricFamily("kilocard_gateway_connections", "Open client connections", scene.connections)
    yield GaugeMetricFamily("kilocard_gateway_draining", "1 while it ends", float(scene.is_draining))
