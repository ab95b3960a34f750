"""Prometheus's files: checked and tested by its own tool, and each broken rule is found by its test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kilocard.deploy import prometheus
from kilocard.deploy.prometheus.alerts import alerts
from kilocard.deploy.prometheus.recording import recording_rules
from kilocard.deploy.prometheus_process import faults_of
from kilocard.specs.cluster import ClusterSpec, cluster_from, read_cluster

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


def broken(name: str, change: str) -> dict[str, str]:
    """The files with one alert's rule changed, its tests as they were."""
    files = prometheus.render(SPEC)
    rules = yaml.safe_load(files["rules.yaml"])
    for group in rules["groups"]:
        for rule in group["rules"]:
            if rule.get("alert") == name:
                rule["expr"] = rule["expr"] + change
    return {**files, "rules.yaml": yaml.safe_dump(rules)}


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_that_never_fires_is_found_by_its_test(name: str) -> None:
    [fault] = faults_of(broken(name, " and on () (vector(1) == 2)"))
    assert name in fault


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_that_always_fires_is_found_by_its_test(name: str) -> None:
    assert faults_of(broken(name, ' or label_replace(vector(1), "x", "y", "", "")'))


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
