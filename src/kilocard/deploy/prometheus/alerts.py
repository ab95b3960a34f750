"""Alert rules, each with a story that must set it off and one that must not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from kilocard.deploy.prometheus.recording import GATEWAY
from kilocard.specs.cluster import ClusterSpec, Pool

Story = dict[str, str]
"""Series → its values, in promtool's way of writing them."""
MINUTES = 30
AT = f"{MINUTES}m"


@dataclass(frozen=True, slots=True)
class Alert:
    """`fires` and `quiet` are stories of MINUTES minutes, a sample each; `labels` are those of the alert that
    the first one sets off."""

    name: str
    expr: str
    for_s: float
    severity: Literal["page", "ticket"]
    summary: str
    runbook: str
    fires: Story
    quiet: Story
    labels: dict[str, str] = field(default_factory=dict)


def alerts(spec: ClusterSpec) -> Iterator[Alert]:
    """Those of a cluster file: its thresholds, its promises, its pools."""
    yield _uneven(spec)
    yield from _late(spec)
    yield from _line(spec)
    yield from _missing(spec)
    yield _errors(spec)
    yield _pressure(spec)
    yield _slow(spec)
    yield from _stale(spec)
    yield _engine_queues(spec)


def _uneven(spec: ClusterSpec) -> Alert:
    pool = spec.pools[0]
    own = spec.alerts
    return Alert(
        "KilocardReplicasUneven",
        f"kilocard:imbalance > {own.imbalance:g}",
        own.for_s,
        "ticket",
        "The busiest replica of {{ $labels.pool }} is {{ $value | humanizePercentage }} over the mean",
        "uneven-replicas",
        {_in_flight(spec, pool, "a"): _steady(30), _in_flight(spec, pool, "b"): _steady(10)},
        {_in_flight(spec, pool, "a"): _steady(11), _in_flight(spec, pool, "b"): _steady(10)},
        _of(spec, pool),
    )


def _late(spec: ClusterSpec) -> Iterator[Alert]:
    slo, own, pool = spec.slo, spec.alerts, spec.pools[0]
    bounds = (
        ("Ttft", "ttft", own.ttft_p95_s or (slo.ttft_p99_s if slo else None), "time_to_first_token_seconds"),
        (
            "Tpot",
            "tpot",
            own.tpot_p95_s or (slo.tpot_p99_s if slo else None),
            "time_per_output_token_seconds",
        ),
    )
    for name, short, bound, histogram in bounds:
        if bound is None:
            continue
        by = {"priority": "interactive"} if short == "ttft" else {"replica": "a"}
        labels = _of(spec, pool) | ({"priority": "interactive"} if short == "ttft" else {})
        chosen = '{priority="interactive"}' if short == "ttft" else ""
        yield Alert(
            f"Kilocard{name}OverSlo",
            f"kilocard:{short}_seconds:p95{chosen} > {bound:g}",
            own.for_s,
            "page",
            f"P95 of {short.upper()} of {{{{ $labels.pool }}}} is {{{{ $value | humanizeDuration }}}}, "
            f"{bound:g} s is promised",
            f"p95-of-{short}-over-target",
            _histogram(spec, pool, histogram, by, bound, is_late=True),
            _histogram(spec, pool, histogram, by, bound, is_late=False),
            labels,
        )


def _line(spec: ClusterSpec) -> Iterator[Alert]:
    own, pool = spec.alerts, spec.pools[0]
    most = max(1, int(own.waiting * spec.gateway.queue.limit))
    waiting = f'{GATEWAY}waiting{{model="{spec.model_of(pool)}",pool="{pool.name}"}}'
    yield Alert(
        "KilocardLineGrowing",
        f"kilocard:waiting > {most} or (kilocard:waiting > 0 and deriv(kilocard:waiting[10m]) > 0 "
        f"and min_over_time(kilocard:waiting[10m]) > 0)",
        own.for_s,
        "page",
        "{{ $value }} requests wait for {{ $labels.pool }}, and more come than go",
        "p95-of-ttft-over-target",
        {waiting: f"1+5x{MINUTES}"},
        {waiting: "0 3 0 2 " + "0 " * (MINUTES - 3)},
        _of(spec, pool),
    )


def _missing(spec: ClusterSpec) -> Iterator[Alert]:
    wanted = {pool.name: _wanted(pool) for pool in spec.pools if _wanted(pool)}
    all_up = {
        f'{GATEWAY}replica_state{{{_labels(spec, pool, f"r{k}")},state="up"}}': _steady(1)
        for pool in spec.pools
        for k in range(wanted.get(pool.name, 0))
    }
    for pool in spec.pools:
        if pool.name not in wanted:
            continue
        last = _labels(spec, pool, f"r{wanted[pool.name] - 1}")
        one_less = {series: values for series, values in all_up.items() if last not in series}
        yield Alert(
            "KilocardReplicasMissing",
            f'(kilocard:serving{{pool="{pool.name}"}} or on () vector(0)) < {wanted[pool.name]}',
            spec.alerts.for_s,
            "ticket" if pool.role in ("batch", "buffer") else "page",
            f"{{{{ $value }}}} of {wanted[pool.name]} replicas of {pool.name} serve",
            "replicas-missing",
            one_less,
            all_up,
            _of(spec, pool) if wanted[pool.name] > 1 else {},
        )


def _wanted(pool: Pool) -> int:
    """Replicas that have to serve."""
    return pool.scaling.least if pool.scaling else pool.count or len(pool.replicas)


def _errors(spec: ClusterSpec) -> Alert:
    own, pool = spec.alerts, spec.pools[0]
    series = f'{GATEWAY}requests_total{{model="{spec.model_of(pool)}",pool="{pool.name}",status="%s"}}'
    return Alert(
        "KilocardErrors",
        f"kilocard:errors > {own.errors:g}",
        own.for_s,
        "page",
        "{{ $value | humanizePercentage }} of the requests of {{ $labels.pool }} fail",
        "errors",
        {series % "ok": f"0+100x{MINUTES}", series % "error": f"0+{_over(own.errors)}x{MINUTES}"},
        {series % "ok": f"0+1000x{MINUTES}", series % "cancelled": f"0+900x{MINUTES}"},
        _of(spec, pool),
    )


def _pressure(spec: ClusterSpec) -> Alert:
    own, pool = spec.alerts, spec.pools[0]
    free = f"{GATEWAY}replica_kv_free_ratio{{{_labels(spec, pool, 'a')}}}"
    return Alert(
        "KilocardKvPressure",
        f"kilocard:kv_used > {own.kv_used:g}",
        own.for_s,
        "ticket",
        "{{ $labels.replica }} has {{ $value | humanizePercentage }} of its KV cache in use: it will preempt",
        "kv-pressure",
        {free: _steady((1 - own.kv_used) / 2)},
        {free: _steady(1 - own.kv_used / 2)},
        _of(spec, pool, "a"),
    )


def _slow(spec: ClusterSpec) -> Alert:
    own, pool, slow = spec.alerts, spec.pools[0], spec.gateway.health.slow
    tpot = f"{GATEWAY}replica_tpot_seconds{{%s}}"
    usual = max(0.03, 2 * slow.floor_s)
    others = {tpot % _labels(spec, pool, name): _steady(usual) for name in ("b", "c")}
    return Alert(
        "KilocardReplicaSlow",
        f"kilocard:replica_tpot_seconds > on (model, pool) group_left () "
        f"({slow.ratio:g} * quantile by (model, pool) (0.5, kilocard:replica_tpot_seconds)) "
        f"and kilocard:replica_tpot_seconds > {slow.floor_s:g}",
        own.for_s,
        "ticket",
        "{{ $labels.replica }} takes {{ $value | humanizeDuration }} a token, its pool half as long or less",
        "slow-replica",
        {tpot % _labels(spec, pool, "a"): _steady(2 * slow.ratio * usual), **others},
        {tpot % _labels(spec, pool, "a"): _steady(1.2 * usual), **others},
        _of(spec, pool, "a"),
    )


def _stale(spec: ClusterSpec) -> Iterator[Alert]:
    own = spec.alerts
    up = 'up{instance="a:9400",job="kilocard-gateway"}'
    yield Alert(
        "KilocardMetricsStale",
        f'max_over_time(up{{job=~"kilocard-.*"}}[{max(15, round(own.stale_s))}s]) == 0',
        0.0,
        "ticket",
        "{{ $labels.instance }} has not been read for a while: what is shown of it is old",
        "metrics-stale",
        {up: "1 1 1 " + "0 " * MINUTES},
        {up: _steady(1)},
        {"instance": "a:9400", "job": "kilocard-gateway"},
    )
    engine = 'up{instance="e:8000",job="kilocard-engine"}'
    running = 'vllm:num_requests_running{engine="0",instance="e:8000",job="kilocard-engine"}'
    yield Alert(
        "KilocardEngineSeriesMissing",
        'up{job="kilocard-engine"} == 1 unless on (instance) vllm:num_requests_running',
        own.for_s,
        "ticket",
        "{{ $labels.instance }} answers, and none of its vllm: series arrive: see how their names are "
        "escaped",
        "metrics-stale",
        {engine: _steady(1)},
        {engine: _steady(1), running: _steady(3)},
        {"instance": "e:8000", "job": "kilocard-engine"},
    )


def _engine_queues(spec: ClusterSpec) -> Alert:
    waiting = 'vllm:num_requests_waiting{engine="0",instance="e:8000",job="kilocard-engine"}'
    return Alert(
        "KilocardEngineQueues",
        "min_over_time(vllm:num_requests_waiting[2m]) > 0",
        spec.alerts.for_s,
        "ticket",
        "{{ $value }} requests wait inside {{ $labels.instance }}: its cap is over what it runs at once",
        "engine-queues",
        {waiting: _steady(4)},
        {waiting: "0 2 0 1 " + "0 " * (MINUTES - 3)},
        {"engine": "0", "instance": "e:8000", "job": "kilocard-engine"},
    )


def _labels(spec: ClusterSpec, pool: Pool, replica: str) -> str:
    return f'model="{spec.model_of(pool)}",pool="{pool.name}",replica="{replica}"'


def _in_flight(spec: ClusterSpec, pool: Pool, replica: str) -> str:
    return f"{GATEWAY}replica_in_flight{{{_labels(spec, pool, replica)}}}"


def _of(spec: ClusterSpec, pool: Pool, replica: str = "") -> dict[str, str]:
    told = {"model": spec.model_of(pool), "pool": pool.name}
    return told | ({"replica": replica} if replica else {})


def _steady(value: float) -> str:
    return f"{value:g}+0x{MINUTES}"


def _over(share: float) -> int:
    """Failures a minute beside 100 good ones that are over a share."""
    return max(1, round(100 * 3 * share / max(1e-9, 1 - min(share, 0.9))) + 1)


def _histogram(
    spec: ClusterSpec, pool: Pool, name: str, by: dict[str, str], bound: float, *, is_late: bool
) -> Story:
    """Requests a minute that take twice the bound, or half of it."""
    labels = ",".join(f'{key}="{value}"' for key, value in (_of(spec, pool) | by).items())
    taken = bound * (2.0 if is_late else 0.5)
    bounds = [bound / 4, bound / 2, bound, 2 * bound, 4 * bound]
    told = {}
    for edge in (*bounds, float("inf")):
        le = "+Inf" if edge == float("inf") else f"{edge:g}"
        rate = 100 if edge >= taken else 0
        told[f'{GATEWAY}{name}_bucket{{{labels},le="{le}"}}'] = f"0+{rate}x{MINUTES}"
    return told
