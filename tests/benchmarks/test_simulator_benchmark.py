"""The comparison of simulators, without its peers: loads, rows, bars, and Kilocard's own part in small."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import peer_environment  # noqa: E402
import simulator  # noqa: E402
from peer_environment import Peer, PeerMissingError, last_line  # noqa: E402
from simulator_features import FEATURES  # noqa: E402
from simulator_loads import LOADS, QUICK_LOADS, Load  # noqa: E402
from simulator_rows import KILOCARD, SIMULATORS, Row, Simulator, measure  # noqa: E402

SMALL = Load(2, 300)
SMALL_PRESSED = Load(200, 4000, pressed=True)


@pytest.fixture(scope="module")
def small() -> Row:
    return measure(KILOCARD, "fleet", SMALL)


def row(name: str, load: str, core_s: float | None, **more: Any) -> Row:
    return Row(name, "1", "step", load, 1, 1000, wall_s=core_s, core_s=core_s, **more)


def rows(peer_s: float | None = 30.0) -> list[Row]:
    """Kilocard takes 0.1 s for what each peer takes `peer_s` for."""
    ours = [row("kilocard", load, 0.1, steps=5, digest="a") for load in LOADS]
    theirs = [row(peer.name, load, peer_s) for peer in SIMULATORS[1:] for load in peer.loads]
    return [*ours, *theirs, row(simulator.STEP_BY_STEP, "fleet", 1.0, digest="a")]


def calls(wall_s: float = 2.0) -> dict[str, Any]:
    return {
        "command": "",
        "empty_cache": {"wall_s": wall_s, "core_s": 1},
        "kept_cache": {"wall_s": 1, "core_s": 1},
    }


def test_the_fleet_is_that_of_the_comparison() -> None:
    case = LOADS["fleet"].case()
    assert (case.replicas, case.workload.requests, case.workload.rate_per_s) == (250, 100_000, 2500)
    assert (case.workload.prompt_tokens, case.workload.output_tokens) == (512, 200)
    assert (case.policy, case.workload.arrivals) == ("least-active", "poisson")
    assert case.engine.enable_prefix_caching and case.engine.kv_blocks is None
    assert QUICK_LOADS.keys() == LOADS.keys()


def test_kilocard_answers_with_times_memory_and_means(small: Row) -> None:
    assert small.problem is None and small.finished == 300 and small.steps and small.preemptions == 0
    assert small.wall_s and small.loop_s and len(small.walls_s) == 5 and small.loop_s <= max(small.walls_s)
    assert small.memory_mb and small.idle_memory_mb and small.memory_mb >= small.idle_memory_mb > 0
    assert small.ttft_ms and small.tpot_ms and small.e2e_ms
    assert small.ttft_ms + 199 * small.tpot_ms == pytest.approx(small.e2e_ms)


def test_step_by_step_is_the_same_run(small: Row) -> None:
    stepped = measure(KILOCARD, "fleet", SMALL, step_by_step=True)
    assert (stepped.digest, stepped.steps) == (small.digest, small.steps)


def test_synchronous_scheduling_shortens_the_first_token(small: Row) -> None:
    synchronous = measure(KILOCARD, "fleet", SMALL, async_scheduling=False)
    assert synchronous.digest != small.digest
    assert synchronous.ttft_ms and small.ttft_ms and synchronous.ttft_ms < small.ttft_ms


def test_shared_prompts_hit_on_more_replicas_than_the_first_tables_hold() -> None:
    pressed = measure(KILOCARD, "fleet", SMALL_PRESSED)
    assert pressed.problem is None and pressed.finished == 4000
    assert pressed.prefix_hit_ratio and 0 < pressed.prefix_hit_ratio < 1


def test_every_simulator_says_what_it_models() -> None:
    assert {simulator.name for simulator in SIMULATORS} == set(FEATURES)
    assert FEATURES["vllm-sr-sim"].level == "request"
    scripts = BENCHMARKS / "simulator_peers"
    assert all((scripts / simulator.script).is_file() for simulator in SIMULATORS)


def test_a_peer_that_cannot_be_installed_is_a_row_that_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KILOCARD_CACHE", str(tmp_path))
    monkeypatch.setattr(peer_environment.sys, "executable", str(tmp_path / "no-python"))
    absent = Simulator("sched-sim", "run_sched_sim.py", Peer("sched-sim", "0"), ("one replica",))
    told = measure(absent, "one replica", SMALL)
    assert told.problem == "not installed: FileNotFoundError" and told.requests_per_s is None
    assert told.problem in simulator.show(told)
    with pytest.raises(PeerMissingError):
        Peer("sched-sim", "0").python()


def test_a_peer_that_fails_is_a_row_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peer, "python", lambda self: Path(sys.executable))
    told = measure(replace(SIMULATORS[2]), "one replica", SMALL)
    assert told.problem and told.problem.startswith("did not run: ModuleNotFoundError")


def test_what_failed_names_no_address_and_no_path() -> None:
    told = last_line("first\nno such file: https://host.example/simple/x and /home/me/x\n")
    assert told == "no such file: … and …"
    assert last_line("") == "it said nothing"


def test_ratios_are_of_the_same_run_and_none_without_the_peer() -> None:
    assert simulator.ratio(rows(), "vllm-sr-sim", "fleet") == pytest.approx(300)
    assert simulator.ratio(rows(None), "vllm-sr-sim", "fleet") is None


def test_bars() -> None:
    assert simulator.misses(simulator.findings(rows(), calls())) == []
    assert simulator.misses(simulator.findings(rows(None), calls())) == []
    assert simulator.misses(simulator.findings(rows(20.0), calls(6.0))) == ["250 x vllm-sr-sim", "first call"]
    other = [*rows()[:-1], row(simulator.STEP_BY_STEP, "fleet", 1.0, digest="b")]
    assert simulator.misses(simulator.findings(other, calls())) == ["exact to the step"]


def test_the_result_is_json_with_its_stamp() -> None:
    found = simulator.findings(rows(None), calls())
    told = json.loads(json.dumps(simulator.result(rows(None), found, True, "2026-11-29")))
    assert told["stamp"]["kind"] == "measured" and told["stamp"]["quick"] is True
    assert told["features"].keys() == FEATURES.keys() and len(told["rows"]) == len(rows())
    assert "equal, to the last bit" in simulator.summary(found)


def test_the_kept_result_has_every_simulator() -> None:
    told = json.loads(simulator.RESULT.read_text())
    assert {row["simulator"] for row in told["rows"]} >= set(FEATURES)
    assert told["stamp"]["quick"] is False
