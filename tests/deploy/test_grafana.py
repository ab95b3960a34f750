"""The dashboard: every query is PromQL over series that somebody tells, and every panel can be read."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilocard.deploy import grafana
from kilocard.deploy.prometheus.recording import recording_rules
from kilocard.deploy.prometheus_process import promtool, written
from kilocard.gateway.telemetry import Scene, Telemetry, metrics_page
from kilocard.specs.cluster import read_cluster

CLUSTERS = Path(__file__).parents[2] / "data" / "clusters"
EXAMPLES = sorted(path.stem for path in CLUSTERS.glob("*.yaml"))
WIDTH = 24
DCGM = {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_GPU_UTIL"}
"""Of what NVIDIA's exporter tells unless it is told otherwise."""
UNITS = {"s", "short", "percentunit", "percent", "reqps"}


@cache
def dashboard(name: str) -> Any:
    return json.loads(grafana.render(read_cluster(CLUSTERS / f"{name}.yaml", {})))


def panels(name: str) -> list[Any]:
    return [it for it in dashboard(name)["panels"] if it["type"] != "row"]


def queries() -> list[tuple[str, str]]:
    """Expression and legend; they are the same for all clusters."""
    [told] = {
        tuple((it["expr"], it["legendFormat"]) for panel in panels(name) for it in panel["targets"])
        for name in EXAMPLES
    }
    return list(told)


def series_in(expr: str) -> set[str]:
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring)\s*\([^)]*\)", "", expr)
    return set(re.findall(r"[A-Za-z_:][\w:]*(?!\w|:|\s*\()", bare)) - {"sum", "max", "min", "avg", "count"}


def told_by_gateways() -> set[str]:
    page = metrics_page(Scene(Telemetry(), [], {}, 0, False)).decode()
    return set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))


def told_by_vllm() -> set[str]:
    """As its own source names them, a counter with the ending that it is told with."""
    spec = find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("no vLLM is installed here to say what it tells")
    source = Path(spec.submodule_search_locations[0]) / "v1" / "metrics" / "loggers.py"
    names = re.findall(r'name="(vllm:\w+)"', source.read_text(encoding="utf-8"))
    return {name + ending for name in names for ending in ("", "_total")}


def test_prometheus_takes_every_query() -> None:
    rules = [{"record": f"panel:{number}", "expr": expr} for number, (expr, _) in enumerate(queries())]
    file = yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]})
    with written({"rules.yaml": file}) as folder:
        assert f"{len(rules)} rules found" in promtool("check", "rules", "rules.yaml", folder=folder)


def test_every_series_is_one_that_somebody_tells() -> None:
    asked = set().union(*(series_in(expr) for expr, _ in queries()))
    assert {"kilocard:in_flight", "vllm:num_requests_running"} <= asked
    unknown = asked - set(recording_rules()) - told_by_gateways() - DCGM
    assert unknown and unknown <= told_by_vllm()


def test_a_legend_names_labels_that_its_series_has() -> None:
    for expr, legend in queries():
        named = set(re.findall(r"\{\{(\w+)\}\}", legend))
        whole = recording_rules().get(expr.partition("{")[0], expr)
        grouped = [re.split(r",\s*", found) for found in re.findall(r"\bby \(([^)]*)\)", whole)]
        if grouped:
            assert named <= set(grouped[0]), (expr, legend)


def test_a_replica_that_two_gateways_see_is_counted_once() -> None:
    states = next(expr for expr, legend in queries() if legend == "{{state}}")
    seen = 'kilocard_gateway_replica_state{instance="%s",model="m",pool="p",replica="%s",state="up"}'
    series = [{"series": seen % (gateway, replica), "values": "1"} for gateway in "gh" for replica in "ab"]
    asked = {"expr": states, "eval_time": "0m", "exp_samples": [{"labels": '{state="up"}', "value": 2}]}
    story = {"interval": "1m", "input_series": series, "promql_expr_test": [asked]}
    with written({"states.test.yaml": yaml.safe_dump({"tests": [story]})}) as folder:
        promtool("test", "rules", "states.test.yaml", folder=folder)


@pytest.mark.parametrize("name", EXAMPLES)
def test_panels_lie_beside_each_other_within_the_page(name: str) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard(name)["panels"]:
        at = panel["gridPos"]
        assert at["x"] >= 0 and at["w"] > 0 and at["h"] > 0 and at["x"] + at["w"] <= WIDTH
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_panel_says_what_it_shows_and_where_from(name: str) -> None:
    whole = dashboard(name)
    [source] = whole["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    numbers = [it["id"] for it in whole["panels"]]
    assert len(set(numbers)) == len(numbers) and all(numbers)
    assert len({panel["title"] for panel in panels(name)}) == len(panels(name))
    for panel in panels(name):
        assert panel["title"] and panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["datasource"] == {"type": "prometheus", "uid": f"${source['name']}"}
        references = [it["refId"] for it in panel["targets"]]
        assert references and len(set(references)) == len(references)
        assert panel["options"]["legend"]["showLegend"] is True


@pytest.mark.parametrize("name", EXAMPLES)
def test_how_long_people_wait_comes_first_and_is_the_largest(name: str) -> None:
    shown = sorted(panels(name), key=lambda it: (it["gridPos"]["y"], it["gridPos"]["x"]))
    first, second, *rest = shown
    assert first["title"].startswith("Time to first token")
    assert second["title"].startswith("Generation time")
    area = {it["title"]: it["gridPos"]["w"] * it["gridPos"]["h"] for it in shown}
    assert min(area[first["title"]], area[second["title"]]) > max(area[it["title"]] for it in rest)


def test_what_is_promised_is_drawn_as_a_line() -> None:
    drawn = {
        panel["title"]: [it["value"] for it in panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1:]]
        for panel in panels("sixteen-nodes")
        if "thresholds" in panel["fieldConfig"]["defaults"]
    }
    assert drawn["Time to first token, interactive"] == [2]
    assert drawn["Seconds a token"] == [0.1]
