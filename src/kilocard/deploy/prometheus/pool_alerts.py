"""Alerts about a pool: what its users feel, who waits for it, who is missing from it."""

from __future__ import annotations

from collections.abc import Iterator

from kilocard.deploy.prometheus.alert import Alert, Story, growing, labels_of, series, steady
from kilocard.specs.cluster import ClusterSpec, Pool

INTERACTIVE = {"priority": "interactive"}
FAR = float("inf")


def uneven(spec: ClusterSpec) -> Alert:
    """One replica has the work of the others."""
    pool = spec.pools[0]
    busy, other = (series("replica_in_flight", labels_of(spec, pool, name)) for name in "ab")
    return Alert(
        "KilocardReplicasUneven",
        f"kilocard:imbalance > {spec.alerts.imbalance:g}",
        spec.alerts.for_s,
        "ticket",
        "The busiest replica of {{ $labels.pool }} is {{ $value | humanizePercentage }} over the mean",
        "uneven-replicas",
        {busy: steady(30), other: steady(10)},
        {busy: steady(11), other: steady(10)},
        labels_of(spec, pool),
    )


def late(spec: ClusterSpec) -> Iterator[Alert]:
    """What is promised of a first token, and of the next ones; nothing where nothing is."""
    slo, own = spec.slo, spec.alerts
    if bound := own.ttft_p95_s or (slo.ttft_p99_s if slo else None):
        yield _late(spec, "Ttft", "time_to_first_token_seconds", bound, INTERACTIVE)
    if bound := own.tpot_p95_s or (slo.tpot_p99_s if slo else None):
        yield _late(spec, "Tpot", "time_per_output_token_seconds", bound, {})


def _late(spec: ClusterSpec, name: str, histogram: str, bound: float, of: dict[str, str]) -> Alert:
    pool, short = spec.pools[0], name.lower()
    chosen = "".join(f'{{{key}="{value}"}}' for key, value in of.items())
    labels = labels_of(spec, pool) | of
    told = labels if of else {**labels, "replica": "a"}
    return Alert(
        f"Kilocard{name}OverSlo",
        f"kilocard:{short}_seconds:p95{chosen} > {bound:g}",
        spec.alerts.for_s,
        "page",
        f"P95 of {short.upper()} of {{{{ $labels.pool }}}} is {{{{ $value | humanizeDuration }}}}, "
        f"{bound:g} s is promised",
        f"p95-of-{short}-over-target",
        _histogram(histogram, told, bound, 2 * bound),
        _histogram(histogram, told, bound, bound / 2),
        labels,
    )


def line(spec: ClusterSpec) -> Alert:
    """More come than go."""
    pool = spec.pools[0]
    most = max(1, int(spec.alerts.waiting * spec.gateway.queue.limit))
    waiting = series("waiting", labels_of(spec, pool))
    return Alert(
        "KilocardLineGrowing",
        f"kilocard:waiting > {most} or (kilocard:waiting > 0 and deriv(kilocard:waiting[10m]) > 0 "
        f"and min_over_time(kilocard:waiting[10m]) > 0)",
        spec.alerts.for_s,
        "page",
        "{{ $value }} requests wait for {{ $labels.pool }}, and more come than go",
        "p95-of-ttft-over-target",
        {waiting: growing(5, 1)},
        {waiting: "0 3 0 2 0x{n}"},
        labels_of(spec, pool),
        window_s=600,
    )


def missing(spec: ClusterSpec) -> Iterator[Alert]:
    """Pool by pool: one that nobody serves has no series to take its labels from, so the rule gives them."""
    for pool in spec.pools:
        if not (wanted := _wanted(pool)):
            continue
        up = {
            series("replica_state", {**labels_of(spec, pool, f"r{k}"), "state": "up"}): steady(1)
            for k in range(wanted)
        }
        yield Alert(
            "KilocardReplicasMissing",
            f'(kilocard:serving{{pool="{pool.name}"}} or on () vector(0)) < {wanted}',
            spec.alerts.for_s,
            "ticket" if pool.role in ("batch", "buffer") else "page",
            f"{{{{ $value }}}} of {wanted} replicas of {pool.name} serve",
            "replicas-missing",
            dict(list(up.items())[1:]),
            up,
            always=labels_of(spec, pool),
        )


def _wanted(pool: Pool) -> int:
    """Replicas that have to serve."""
    return pool.scaling.least if pool.scaling else pool.count or len(pool.replicas)


def errors(spec: ClusterSpec) -> Alert:
    """Failed and timed out, of all; who hangs up has not failed."""
    pool = spec.pools[0]
    good, bad, cut = (
        series("requests_total", {**labels_of(spec, pool), "status": status})
        for status in ("ok", "error", "cancelled")
    )
    return Alert(
        "KilocardErrors",
        f"kilocard:errors > {spec.alerts.errors:g}",
        spec.alerts.for_s,
        "page",
        "{{ $value | humanizePercentage }} of the requests of {{ $labels.pool }} fail",
        "errors",
        {good: growing(100), bad: growing(_over(spec.alerts.errors))},
        {good: growing(1000), cut: growing(900)},
        labels_of(spec, pool),
    )


def _over(share: float) -> int:
    """Failures a minute beside 100 good ones that are over a share."""
    return max(1, round(100 * 3 * share / max(1e-9, 1 - min(share, 0.9))) + 1)


def _histogram(name: str, labels: dict[str, str], bound: float, taken: float) -> Story:
    """A hundred requests a minute that all take so long, in buckets around a bound."""
    edges = (bound / 4, bound / 2, bound, 2 * bound, 4 * bound, FAR)
    return {
        series(f"{name}_bucket", {**labels, "le": "+Inf" if edge == FAR else f"{edge:g}"}): growing(
            100 if edge >= taken else 0
        )
        for edge in edges
    }
