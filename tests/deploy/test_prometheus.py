"""Prometheus's files: checked and tested by its own tool, and each broken rule is found by its test."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from kilocard.deploy import prometheus
from kilocard.deploy.prometheus.alerts import alerts
from kilocard.deploy.prometheus.recording import recording_rules
from kilocard.deploy.prometheus_process import faults_of
from kilocard.specs.cluster import Alerts, ClusterSpec, cluster_from, read_cluster

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "data" / "clusters").glob("*.yaml"))
SPEC = cluster_from(
    {
        "name": "t",
        "model": "m",
        "pools": [{"name": "chat", "replicas": 4}, {"name": "night", "role": "batch", "replicas": 1}],
        "slo": {"ttft_p99_s": 2, "tpot_p99_s": 0.1},
    }
)
NAMES = sorted({alert.name for alert in alerts(SPEC)})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_what_is_rendered_is_taken_and_its_alerts_do_what_they_should(path: Path) -> None:
    assert faults_of(prometheus.render(read_cluster(path, {}))) == []


FOUND = re.compile(r'alertname=\\"(\w+)\\".*?exp: (nil|\{).*?got: (nil|\{)')
"""In promtool's words: whose test failed, whether it should fire, whether it did."""


@cache
def found_where_all_are_changed(change: str) -> set[tuple[str, str, str]]:
    """What the tests find where every alert's rule is changed alike: each asks for its own alert alone."""
    files = prometheus.render(SPEC)
    rules = yaml.safe_load(files["rules.yaml"])
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                rule["expr"] = f"({rule['expr']}) {change}"
    [fault] = faults_of({**files, "rules.yaml": yaml.safe_dump(rules)})
    return set(FOUND.findall(fault))


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_that_never_fires_is_found_by_its_test(name: str) -> None:
    found = found_where_all_are_changed("and on () (vector(1) == 2)")
    assert [it for it in found if it[0] == name] == [(name, "{", "nil")]


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_that_always_fires_is_found_by_its_test(name: str) -> None:
    found = found_where_all_are_changed('or label_replace(vector(1), "x", "y", "", "")')
    assert (name, "nil", "{") in found


PATIENT = {"for_s": 1800, "stale_s": 1200, "imbalance": 0.1, "errors": 0.5, "kv_used": 0.5, "waiting": 0.01}


def test_alerts_of_other_bounds_do_what_they_should_too() -> None:
    spec = SPEC.model_copy(update={"alerts": Alerts.model_validate(PATIENT)})
    assert faults_of(prometheus.render(spec)) == []


def test_a_pool_that_nobody_serves_is_named_by_its_alert() -> None:
    rules = yaml.safe_load(prometheus.render(SPEC)["rules.yaml"])["groups"][1]["rules"]
    missing = [rule["labels"] for rule in rules if rule["alert"] == "KilocardReplicasMissing"]
    assert [labels["pool"] for labels in missing] == ["chat", "night"]


def test_every_series_that_is_asked_for_is_one_that_somebody_tells() -> None:
    from kilocard.gateway.telemetry import Scene, Telemetry, metrics_page

    page = metrics_page(Scene(Telemetry(), [], {}, 0, False)).decode()
    told = set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))
    recorded = recording_rules()
    asked = {name for expr in recorded.values() for name in re.findall(r"kilocard_gateway_\w+", expr)}
    assert {re.sub(r"_(?:bucket|total)$", "", name) for name in asked} <= {
        re.sub(r"_total$", "", name) for name in told
    }
    used = {name for alert in alerts(SPEC) for name in re.findall(r"kilocard:[\w:]+", alert.expr)}
    assert used <= set(recorded)


def test_a_pool_of_a_list_is_asked_where_its_engines_are() -> None:
    spec: ClusterSpec = read_cluster(ROOT / "data" / "clusters" / "two-gateways.yaml", {"ENGINE_KEY": "x"})
    told = yaml.safe_load(prometheus.render(spec)["prometheus.yaml"])
    jobs = {job["job_name"]: job["static_configs"] for job in told["scrape_configs"]}
    assert jobs["kilocard-gateway"] == [{"targets": ["127.0.0.1:9400", "127.0.0.1:9401"]}]
    assert jobs["kilocard-engine"][0]["targets"][0] == "127.0.0.1:8001"
