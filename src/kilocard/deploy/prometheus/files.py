"""Prometheus's files: whom it asks, its rules, and the tests of its rules."""

from __future__ import annotations

from typing import Any

import yaml

from kilocard.deploy.prometheus.alert import Alert
from kilocard.deploy.prometheus.alerts import alerts
from kilocard.deploy.prometheus.recording import recording_rules
from kilocard.specs.cluster import ClusterSpec
from kilocard.specs.cluster.parts import joined

RULES, TESTS, SCRAPE = "rules.yaml", "rules.test.yaml", "prometheus.yaml"
RUNBOOK = "runbook/"
HEAD = "# Rendered from the cluster file {name}: change that one, not this.\n"


def render(spec: ClusterSpec) -> dict[str, str]:
    """Path → text."""
    found = list(alerts(spec))
    return {
        SCRAPE: _text(spec, scrape_config(spec)),
        RULES: _text(spec, rules(spec, found)),
        TESTS: _text(spec, tests(found)),
    }


def rules(spec: ClusterSpec, found: list[Alert]) -> dict[str, Any]:
    """Recording rules first: alerts ask for what they record. Asked at every third scrape, and at least each
    15 s."""
    every = f"{min(15.0, 3 * spec.deployment.scrape_s):g}s"
    recorded = [{"record": name, "expr": expr} for name, expr in recording_rules().items()]
    return {
        "groups": [
            {"name": "kilocard-recorded", "interval": every, "rules": recorded},
            {"name": "kilocard-alerts", "interval": every, "rules": [_rule(alert) for alert in found]},
        ]
    }


def tests(found: list[Alert]) -> dict[str, Any]:
    """For `promtool test rules`: each alert's story sets it off, and its quiet one does not. Asked each
    minute, as often as a story has a sample: there is nothing new between."""
    return {
        "rule_files": [RULES],
        "evaluation_interval": "1m",
        "tests": [test for alert in found for test in (_test(alert, fires=True), _test(alert, fires=False))],
    }


def scrape_config(spec: ClusterSpec) -> dict[str, Any]:
    """Gateways and engines of one machine, or of a list of places. The text form is asked for: in the other
    one a bare exporter's colons become underscores, and rules that name them find nothing."""
    metrics = spec.gateway.metrics
    own = "127.0.0.1" if metrics.host in ("0.0.0.0", "::") else metrics.host
    doors = [joined(own, metrics.port + k) for k in range(spec.gateway.gateways)]
    return {
        "global": {
            "scrape_interval": f"{spec.deployment.scrape_s:g}s",
            "evaluation_interval": f"{spec.deployment.scrape_s:g}s",
        },
        "rule_files": [RULES],
        "scrape_configs": [
            {"job_name": "kilocard-gateway", "static_configs": [{"targets": doors}]},
            {"job_name": "kilocard-engine", "static_configs": _engines(spec)},
        ],
    }


def _engines(spec: ClusterSpec) -> list[dict[str, Any]]:
    told = []
    for pool in spec.pools:
        targets = [joined(replica.host, replica.port) for replica in pool.replicas]
        if targets:
            told.append({"targets": targets, "labels": {"pool": pool.name}})
    return told


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **({"for": f"{round(alert.for_s)}s"} if alert.for_s else {}),
        "labels": {"severity": alert.severity, **alert.always},
        "annotations": {"summary": alert.summary, "runbook": f"{RUNBOOK}{alert.runbook}"},
    }


def _test(alert: Alert, *, fires: bool) -> dict[str, Any]:
    story = alert.fires if fires else alert.quiet
    asked = {"alertname": alert.name, "alertstate": "firing", **alert.always}
    told = {**asked, "severity": alert.severity, **alert.labels}
    expected = [{"labels": _chosen(told), "value": 1}] if fires else []
    return {
        "name": f"{alert.name} {'fires' if fires else 'is quiet'}",
        "interval": "1m",
        "input_series": [
            {"series": series, "values": values.format(n=alert.minutes)} for series, values in story.items()
        ],
        "promql_expr_test": [
            {"expr": _chosen(asked), "eval_time": f"{alert.minutes}m", "exp_samples": expected}
        ],
    }


def _chosen(labels: dict[str, str]) -> str:
    told = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return f"ALERTS{{{told}}}"


def _text(spec: ClusterSpec, content: dict[str, Any]) -> str:
    return HEAD.format(name=spec.name) + yaml.safe_dump(content, sort_keys=False, width=110)


def operator_files(spec: ClusterSpec) -> dict[str, str]:
    """For the Prometheus operator: whom to ask, and the rules, as objects of Kubernetes."""
    from kilocard.deploy.kubernetes.names import engines_of, labels, meta, namespace_of, selector

    every = f"{spec.deployment.scrape_s:g}s"
    text = ["PrometheusText0.0.4"]
    monitors = [
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": meta(spec, name, part),
            "spec": {
                "jobLabel": "kilocard.dev/job",
                "selector": {"matchLabels": selector(part)},
                "namespaceSelector": {"matchNames": [namespace_of(spec)]},
                "scrapeProtocols": text,
                "endpoints": [
                    {
                        "port": port,
                        "path": "/metrics",
                        "interval": every,
                        "relabelings": [
                            {"action": "replace", "targetLabel": "job", "replacement": f"kilocard-{job}"}
                        ],
                    }
                ],
            },
        }
        for name, part, port, job in (
            ("gateway", "gateway", "metrics", "gateway"),
            *((engines_of(pool), engines_of(pool), "http", "engine") for pool in spec.pools if pool.count),
        )
    ]
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "kilocard",
            "namespace": namespace_of(spec),
            "labels": {**labels(spec, "rules"), "role": "alert-rules"},
        },
        "spec": rules(spec, list(alerts(spec))),
    }
    told = [yaml.safe_dump(its, sort_keys=False, width=110) for its in (*monitors, rule)]
    return {"monitoring/monitoring.yaml": HEAD.format(name=spec.name) + "---\n".join(told)}
