"""Alerts about one replica or one engine: its cache, its speed, its own line, and whether it is read."""

from __future__ import annotations

from collections.abc import Iterator

from kilocard.deploy.prometheus.alert import Alert, at_last, labels_of, minutes_of, series, steady
from kilocard.specs.cluster import ClusterSpec

ENGINE = {"instance": "e:8000", "job": "kilocard-engine"}
GATEWAY = {"instance": "a:9400", "job": "kilocard-gateway"}


def pressure(spec: ClusterSpec) -> Alert:
    """An engine without room takes back what it has begun."""
    own, labels = spec.alerts, labels_of(spec, spec.pools[0], "a")
    free = series("replica_kv_free_ratio", labels)
    return Alert(
        "KilocardKvPressure",
        f"kilocard:kv_used > {own.kv_used:g}",
        own.for_s,
        "ticket",
        "{{ $labels.replica }} has {{ $value | humanizePercentage }} of its KV cache in use: it will preempt",
        "kv-pressure",
        {free: steady((1 - own.kv_used) / 2)},
        {free: steady(1 - own.kv_used / 2)},
        labels,
    )


def slow(spec: ClusterSpec) -> Alert:
    """Slower than its pool and slow enough to be felt, or found slow by a gateway: one that is held back has
    too few answers to have a pace. Its story is of one that is first the one and then the other, neither for
    long enough."""
    pool, bounds, for_s = spec.pools[0], spec.gateway.health.slow, spec.alerts.for_s
    usual = max(0.03, 2 * bounds.floor_s)
    tpot = {name: series("replica_tpot_seconds", labels_of(spec, pool, name)) for name in "abc"}
    state = series("replica_state", labels_of(spec, pool, "a") | {"state": "slow"})
    others = {tpot[name]: steady(usual) for name in "bc"}
    seen = minutes_of(for_s) - int(for_s // 120)
    return Alert(
        "KilocardReplicaSlow",
        f"kilocard:replica_slow == 1 or (kilocard:replica_tpot_seconds > on (model, pool) group_left () "
        f"({bounds.ratio:g} * quantile by (model, pool) (0.5, kilocard:replica_tpot_seconds)) "
        f"and kilocard:replica_tpot_seconds > {bounds.floor_s:g})",
        for_s,
        "ticket",
        f"{{{{ $labels.replica }}}} takes over {bounds.ratio:g} times as long for a token as its pool",
        "slow-replica",
        {
            tpot["a"]: at_last(seen, 2 * bounds.ratio * usual, 0),
            state: at_last(seen, 0, 1),
            **others,
        },
        {tpot["a"]: steady(1.2 * usual), **others},
        labels_of(spec, pool, "a"),
    )


def stale(spec: ClusterSpec) -> Iterator[Alert]:
    """Who is not read, and an engine that is read without telling what is asked for."""
    own = spec.alerts
    yield Alert(
        "KilocardMetricsStale",
        f'max_over_time(up{{job=~"kilocard-.*"}}[{max(15, round(own.stale_s))}s]) == 0',
        0.0,
        "ticket",
        "{{ $labels.instance }} has not been read for a while: what is shown of it is old",
        "metrics-stale",
        {_up(GATEWAY): "1 0x{n}"},
        {_up(GATEWAY): steady(1)},
        GATEWAY,
        window_s=own.stale_s,
    )
    yield Alert(
        "KilocardEngineSeriesMissing",
        'up{job="kilocard-engine"} == 1 unless on (instance) vllm:num_requests_running',
        own.for_s,
        "ticket",
        "{{ $labels.instance }} answers, and none of its vllm: series arrive: see how their names are "
        "escaped",
        "metrics-stale",
        {_up(ENGINE): steady(1)},
        {_up(ENGINE): steady(1), _of_engine("running"): steady(3)},
        ENGINE,
    )


def engine_queues(spec: ClusterSpec) -> Alert:
    """Behind a gateway that holds back nobody waits inside an engine."""
    return Alert(
        "KilocardEngineQueues",
        "min_over_time(vllm:num_requests_waiting[2m]) > 0",
        spec.alerts.for_s,
        "ticket",
        "{{ $value }} requests wait inside {{ $labels.instance }}: its cap is over what it runs at once",
        "engine-queues",
        {_of_engine("waiting"): steady(4)},
        {_of_engine("waiting"): "0 2 0 1 0x{n}"},
        {"engine": "0", **ENGINE},
    )


def _up(labels: dict[str, str]) -> str:
    return f'up{{instance="{labels["instance"]}",job="{labels["job"]}"}}'


def _of_engine(state: str) -> str:
    return f'vllm:num_requests_{state}{{engine="0",instance="{ENGINE["instance"]}",job="{ENGINE["job"]}"}}'
