"""What a simulated cluster comes to: a run, numbers, a sweep that goes on where it was cut off."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from tests.cluster.scenarios import a_scenario, simulated

from kilocard.cluster import sweep as sweeps
from kilocard.cluster.result import as_run, result_of
from kilocard.cluster.summary import Summary, summary_of
from kilocard.cluster.sweep import over_seeds, sweep
from kilocard.errors import KilocardError
from kilocard.record import Kind, Run, Status
from kilocard.stats import summarise_requests

SLOW = {"kind": "slow", "at_s": 5, "for_s": 20, "replica": "chat-1", "times": 4}
LOST = {"kind": "gateway", "at_s": 10, "for_s": 10, "gateway": 1}
SLO = {"slo": {"ttft_p99_s": 0.1, "tpot_p99_s": 0.03}}


def test_a_run_says_what_the_numbers_say(tmp_path: Path) -> None:
    outcome = simulated(cluster=SLO, faults=[SLOW, LOST])
    run, its = as_run(outcome), summary_of(outcome)
    whole = summarise_requests(run.requests, outcome.scenario.cluster.slo)
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        mine, theirs = asdict(getattr(its, name)), asdict(getattr(whole, name))
        assert mine == pytest.approx(theirs)
    assert whole.status == {"ok": its.ok, "error": its.errors}
    assert whole.goodput_ratio == pytest.approx(its.goodput_ratio)
    assert run.stamp.kind is Kind.SIMULATED
    again = Run.read(run.write(tmp_path / "r.parquet"))
    assert again.requests.equals(run.requests)
    assert len(again.samples) == len(run.samples) > 0


def test_a_run_names_who_did_what() -> None:
    run = as_run(simulated(faults=[LOST]))
    assert set(run.requests["gateway"]) == {"gateway-0", "gateway-1"}
    assert set(run.requests["replica"].dropna()) == {f"chat-{k}" for k in range(8)}
    assert set(run.requests["node"].dropna()) == {"node-0"}
    failed = run.requests[run.requests["status"] == Status.ERROR]
    assert set(failed["error"]) == {"the gateway was lost"}
    assert failed["last_token_s"].isna().all()
    assert run.requests["error"].notna().sum() == len(failed)


def test_numbers_of_pools_and_classes_add_up() -> None:
    outcome = simulated(traffic={"priority": {0: 0.7, 2: 0.3}})
    whole = summary_of(outcome)
    parts = [summary_of(outcome, rank=rank) for rank in (0, 1, 2)]
    assert sum(part.arrived for part in parts) == whole.arrived
    result = result_of(outcome)
    assert result["pools"]["chat"]["ok"] == whole.ok
    assert result["run"]["utilization"] == pytest.approx(whole.utilization)
    assert 0 < whole.utilization < 1
    late = summary_of(outcome, since_s=25)
    assert 0 < late.arrived < whole.arrived


def test_a_sweep_goes_on_where_it_was_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenarios = over_seeds(a_scenario(traffic={"requests": 300}), 4)
    whole = sweep(scenarios, jobs=1)
    assert len({each.ttft_s.mean for each in whole}) == 4
    done: list[int] = []
    sweep(scenarios[:2], tmp_path, jobs=1)
    monkeypatch.setattr(sweeps, "simulate_scenario", lambda it: done.append(it.seed) or simulated_one(it))
    assert sweep(scenarios, tmp_path, jobs=1) == whole
    assert done == [2, 3]
    next(tmp_path.glob("*.json")).write_text("{")
    assert sweep(scenarios, tmp_path, jobs=1) == whole
    assert len(done) == 3


simulated_one = sweeps.simulate_scenario


def test_several_at_once_are_the_same(tmp_path: Path) -> None:
    scenarios = over_seeds(a_scenario(traffic={"requests": 300}), 3)
    seen: list[tuple[int, int]] = []
    assert sweep(scenarios, jobs=2, progress=lambda *at: seen.append(at)) == sweep(scenarios, jobs=1)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KilocardError, match=r"cannot keep a sweep in .*name another folder"):
        sweep([a_scenario(traffic={"requests": 50})], tmp_path / "file" / "x")
    with pytest.raises(KilocardError, match="give 1 or more"):
        over_seeds(a_scenario(), 0)


def test_unequal_cards_are_unequal() -> None:
    equal, unequal = (simulated(variance=variance) for variance in (0.0, 0.1))
    assert len(np.unique(equal.engines.replicas.kv_token_ps)) == 1
    assert len(np.unique(unequal.engines.replicas.kv_token_ps)) == 8
    assert isinstance(summary_of(unequal), Summary)
