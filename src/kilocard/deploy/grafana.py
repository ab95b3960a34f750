"""A dashboard: how long people wait first and large, then why."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from string import ascii_uppercase

from grafana_foundation_sdk.builders import common, dashboard, prometheus, timeseries
from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    DataSourceRef,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, Threshold, ThresholdsMode

from kilocard.specs.cluster import ClusterSpec

HEIGHT, LARGE = 8, 12
STATES = "sum by (state) (max by (model, pool, replica, state) (kilocard_gateway_replica_state))"
"""A replica that several gateways see is one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One query and what its lines are called."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Graph:
    """One panel. `bound` is drawn as a line that should not be crossed."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    span: int = 8
    height: int = HEIGHT
    about: str = ""
    bound: float | None = None


def render(spec: ClusterSpec) -> str:
    """The dashboard as JSON, for Grafana's import or its provisioning."""
    built = (
        Dashboard(f"Kilocard: {spec.name}")
        .uid(f"kilocard-{spec.name}"[:40])
        .tags(["kilocard", "llm"])
        .refresh("10s")
        .time("now-1h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(DatasourceVariable("source").label("Prometheus").type("prometheus"))
    )
    number = count(1)
    for title, graphs in rows(spec):
        built = built.with_row(Row(title).id(next(number)))
        for graph in graphs:
            built = built.with_panel(_panel(graph).id(next(number)))
    return str(JSONEncoder(sort_keys=True, indent=2).encode(built.build())) + "\n"


def rows(spec: ClusterSpec) -> list[tuple[str, list[Graph]]]:
    """What is shown, in the order in which a person asks."""
    slo = spec.slo
    return [
        ("How long people wait", _waits(slo.ttft_p99_s if slo else None, slo.tpot_p99_s if slo else None)),
        ("Why", _whys(spec)),
        ("Which replica", _replicas()),
        ("Engines", _engines()),
    ]


def _waits(ttft_s: float | None, tpot_s: float | None) -> list[Graph]:
    first = Line('kilocard:ttft_seconds:p95{priority="interactive"}', "P95 {{pool}}")
    middle = Line('kilocard:ttft_seconds:p50{priority="interactive"}', "P50 {{pool}}")
    return [
        Graph("Time to first token, interactive", "s", (first, middle), 12, LARGE, bound=ttft_s),
        Graph(
            "Generation time, whole request",
            "s",
            (Line("kilocard:generation_seconds:p95", "P95 {{pool}} {{priority}}"),),
            12,
            LARGE,
        ),
        Graph("Seconds a token", "s", (Line("kilocard:tpot_seconds:p95", "P95 {{pool}}"),), 12, bound=tpot_s),
        Graph("Requests that fail", "percentunit", (Line("kilocard:errors", "{{pool}}"),), 12),
    ]


def _whys(spec: ClusterSpec) -> list[Graph]:
    return [
        Graph(
            "Waiting in line",
            "short",
            (Line("kilocard:waiting", "{{pool}}"),),
            bound=spec.alerts.waiting * spec.gateway.queue.limit,
        ),
        Graph("In flight over caps", "percentunit", (Line("kilocard:utilization", "{{pool}}"),), bound=0.85),
        Graph("Replicas that serve", "short", (Line("kilocard:serving", "{{pool}}"),)),
        Graph("Requests a second", "reqps", (Line("kilocard:requests_per_s", "{{pool}} {{priority}}"),)),
        Graph("Tokens a second", "short", (Line("kilocard:tokens_per_s", "{{pool}}"),)),
        Graph(
            "Refused, by reason",
            "reqps",
            (Line("sum by (reason) (rate(kilocard_gateway_refusals_total[5m]))", "{{reason}}"),),
        ),
    ]


def _replicas() -> list[Graph]:
    return [
        Graph("In flight", "short", (Line("kilocard:in_flight", "{{replica}}"),)),
        Graph("Seconds a token, rolling", "s", (Line("kilocard:replica_tpot_seconds", "{{replica}}"),)),
        Graph("KV cache in use", "percentunit", (Line("kilocard:kv_used", "{{replica}}"),), bound=0.9),
        Graph(
            "Busiest over the mean", "percentunit", (Line("kilocard:imbalance", "{{pool}}"),), 12, bound=0.3
        ),
        Graph("States", "short", (Line(STATES, "{{state}}"),), 12),
    ]


def _engines() -> list[Graph]:
    return [
        Graph("Running inside", "short", (Line("vllm:num_requests_running", "{{instance}}"),)),
        Graph(
            "Waiting inside",
            "short",
            (Line("vllm:num_requests_waiting", "{{instance}}"),),
            about="Stays at 0 behind a gateway that holds back.",
        ),
        Graph(
            "Preemptions a second", "short", (Line("rate(vllm:num_preemptions_total[5m])", "{{instance}}"),)
        ),
        Graph(
            "Card memory in use",
            "percentunit",
            (
                Line(
                    "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
                    "{{gpu}} {{Hostname}}",
                ),
            ),
            12,
        ),
        Graph(
            "Card utilization",
            "percent",
            (Line("DCGM_FI_DEV_GPU_UTIL", "{{gpu}} {{Hostname}}"),),
            12,
            about="Near 100 with one request: it says that something runs, not how much.",
        ),
    ]


def _panel(graph: Graph) -> timeseries.Panel:
    source = DataSourceRef(type_val="prometheus", uid="$source")
    panel = (
        timeseries.Panel()
        .title(graph.title)
        .description(graph.about)
        .unit(graph.unit)
        .min(0)
        .span(graph.span)
        .height(graph.height)
        .datasource(source)
        .legend(_legend())
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    )
    for name, line in zip(ascii_uppercase, graph.lines, strict=False):
        query = prometheus.Dataquery().ref_id(name).expr(line.expr).legend_format(line.legend)
        panel = panel.with_target(query)
    if graph.bound is not None:
        steps = [Threshold(value=None, color="transparent"), Threshold(value=graph.bound, color="red")]
        panel = panel.thresholds(
            dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
        ).thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.LINE))
    return panel


def _legend() -> common.VizLegendOptions:
    """Below the graph: without it nobody knows whose line it is."""
    shown = common.VizLegendOptions().show_legend(True)
    return shown.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
