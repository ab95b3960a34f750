"""The benchmarks of the cluster and of the search, in small: what they ask, and what they judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import cluster_days  # noqa: E402
import search as search_benchmark  # noqa: E402
from simulator_loads import Load  # noqa: E402
from simulator_rows import Row, measure  # noqa: E402

import cluster as cluster_benchmark  # noqa: E402

GOOD_SPAN = {"arrived": 5_000_000, "ended": 5_000_000, "wall_s": 4.0, "memory_gib": 1.0}


def row(load: str, core_s: float | None) -> Row:
    return Row("x", "1", "step", load, 1, 1000, wall_s=core_s, core_s=core_s)


def found(peer_s: float | None = 10.0, **changes: Any) -> dict[str, Any]:
    rows = [row("fleet", peer_s), row("fleet, least-active", 0.05), row("fleet, least-delay", 0.1)]
    return cluster_benchmark.findings(rows, {"hour": GOOD_SPAN, "day": {**GOOD_SPAN, **changes}})


def test_bars_are_missed_when_they_are() -> None:
    assert cluster_benchmark.misses(found()) == []
    assert cluster_benchmark.misses(found(peer_s=None)) == []
    assert cluster_benchmark.misses(found(peer_s=1.0)) == ["100 x vllm-sr-sim"]
    assert cluster_benchmark.misses(found(wall_s=61)) == ["a day"]
    assert cluster_benchmark.misses(found(memory_gib=4.1)) == ["memory"]
    assert cluster_benchmark.misses(found(arrived=4_999_999)) == ["requests of the day", "every request ends"]


def test_our_part_answers_as_the_peers_do() -> None:
    told = {"policy": "least-active", "gateways": 2}
    its = measure(cluster_benchmark.OURS, "fleet", Load(4, 300), told=told)
    assert its.problem is None
    assert its.finished == 300
    assert its.steps and its.ttft_ms and 25 < its.ttft_ms < 60


@pytest.mark.parametrize("hours", [1, 24])
def test_a_day_is_a_thousand_cards_and_five_million_requests(hours: int) -> None:
    its = cluster_days.scenario(hours, 1.0)
    pool = its.cluster.pools[0]
    assert pool.count * 4 == 1000
    assert its.cluster.gateway.gateways == 4
    expected = sum(stage.expected_requests for stage in its.traffic[0].stages)
    assert expected > (5_000_000 if hours == 24 else 300_000)


def test_a_thin_hour_runs_in_a_process_of_its_own() -> None:
    command = [sys.executable, str(BENCHMARKS / "cluster_days.py"), "1", "0.005"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert told["arrived"] == told["ended"] > 500
    assert told["events"] > 2


def test_a_search_is_judged_by_its_size_its_time_and_what_it_missed() -> None:
    told = {
        "large": {"candidates": 2000, "with_the_winner_in_full_s": 60.0},
        "small": {"found": 3.0, "cheapest": 3.0},
    }
    assert search_benchmark.misses(told) == []
    assert search_benchmark.misses({**told, "small": {"found": 3.1, "cheapest": 3.0}}) == ["never beaten"]
    short = {"candidates": 999, "with_the_winner_in_full_s": 121.0}
    assert search_benchmark.misses({**told, "large": short}) == ["enough candidates", "two minutes"]
