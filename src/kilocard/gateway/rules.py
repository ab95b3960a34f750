"""What the cluster file says of health, retries and weights, as rules for those who keep them."""

from __future__ import annotations

from kilocard.gateway.scraping import Scraping
from kilocard.gateway.warden import Warden
from kilocard.routing.budget import RetryRule
from kilocard.routing.failover import FailoverRule
from kilocard.routing.health import HealthRule
from kilocard.routing.slow import SlowRule
from kilocard.routing.weights import WeightRule
from kilocard.specs.cluster import ClusterSpec


def follow(spec: ClusterSpec, warden: Warden, scraping: Scraping, gateways: int) -> None:
    """From now on; each of `gateways` takes its part of the probes."""
    health, weights = spec.gateway.health, spec.gateway.weights
    warden.rule = health_rule(spec, gateways)
    scraping.set_interval(health.metrics_every_s)
    warden.probe_timeout_s = health.probe.timeout_s
    warden.failover = FailoverRule(spec.gateway.failover)
    warden.budget.rule = retry_rule(spec)
    warden.weighing.every_s = weights.every_s
    warden.weighing.rule = WeightRule(least=weights.least) if weights.adaptive else None
    warden.slow_rule = slow_rule(spec)


def health_rule(spec: ClusterSpec, gateways: int) -> HealthRule:
    """When a replica is out, and how often each gateway probes it."""
    health = spec.gateway.health
    return HealthRule(
        most_failures=health.failures,
        most_misses=health.probe.failures,
        good_probes=health.probe.successes,
        interval_s=health.probe.every_s * gateways,
    )


def slow_rule(spec: ClusterSpec) -> SlowRule:
    """When a replica is slow."""
    slow = spec.gateway.health.slow
    return SlowRule(
        ratio=slow.ratio,
        recovered_ratio=slow.recovered_ratio,
        floor_s=slow.floor_s,
        hold_s=slow.hold_s,
        calm_s=slow.calm_s,
        share=slow.share,
        most_share=slow.most_share,
    )


def retry_rule(spec: ClusterSpec) -> RetryRule:
    """How many second tries there may be."""
    retries = spec.gateway.retries
    return RetryRule(share=retries.budget, most=retries.most)
