"""Laws of a simulated cluster, whatever befalls it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cluster.scenarios import a_scenario, events_of, require_conserved, simulated

from kilocard.cluster.books import FAILED, OK, REFUSED, TIMED_OUT
from kilocard.cluster.simulate import simulate_scenario
from kilocard.cluster.summary import summary_of
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.fleet import simulate_case
from kilocard.specs import case_from

FAULTS: dict[str, dict[str, Any]] = {
    "crash": {"kind": "crash", "at_s": 10, "replica": "chat-1"},
    "crash of a node": {"kind": "crash", "at_s": 10, "node": 0},
    "hang": {"kind": "hang", "at_s": 10, "replica": "chat-1"},
    "slow": {"kind": "slow", "at_s": 10, "for_s": 20, "replica": "chat-1", "times": 5},
    "power": {"kind": "power", "at_s": 10, "for_s": 20, "node": 0},
    "cut": {"kind": "cut", "at_s": 10, "for_s": 15, "node": 0},
    "gateway": {"kind": "gateway", "at_s": 10, "for_s": 10, "gateway": 1},
    "metrics": {"kind": "metrics", "at_s": 10, "for_s": 20, "gateway": 1},
    "flapping": {"kind": "crash", "at_s": 5, "replica": "chat-1", "every_s": 15, "repeats": 3},
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_request_ends_once_whatever_fails(name: str) -> None:
    outcome = simulated(faults=[FAULTS[name]])
    require_conserved(outcome)
    its = summary_of(outcome)
    assert its.arrived == 3000
    assert its.arrived == its.ok + its.refused + its.timeouts + its.errors + its.in_flight
    assert events_of(outcome, FAULTS[name]["kind"])


@settings(max_examples=15)
@given(
    rate=st.sampled_from([5, 60, 400]),
    gateways=st.integers(1, 3),
    cap=st.sampled_from([2, 48, 64]),
    replicas=st.integers(1, 6),
    policy=st.sampled_from(["least-delay", "round-robin", "least-active", "prefix-affinity"]),
    kinds=st.lists(st.sampled_from(sorted(FAULTS)), max_size=3),
    shares=st.booleans(),
    turns=st.booleans(),
)
def test_every_request_ends_once_in_any_cluster(
    rate: int,
    gateways: int,
    cap: int,
    replicas: int,
    policy: str,
    kinds: list[str],
    shares: bool,
    turns: bool,
) -> None:
    faults = [
        {**FAULTS[kind], **({"replica": "chat-0"} if "replica" in FAULTS[kind] else {})}
        for kind in kinds
        if FAULTS[kind].get("gateway", 0) < gateways
    ]
    traffic: dict[str, Any] = {"requests": 800, "rate_per_s": rate}
    if shares:
        traffic["priority"] = {0: 0.6, 1: 0.2, 2: 0.2}
    if turns:
        traffic["turns"] = {"count": 3, "think_s": 1.0}
    outcome = simulated(
        {"replicas": replicas, "cap": cap},
        traffic,
        {"gateway": {"gateways": gateways, "policy": policy, "queue": {"limit": 50}}},
        faults=faults,
    )
    require_conserved(outcome)


def test_the_same_seed_gives_the_same_and_another_another() -> None:
    faults = [FAULTS["slow"], FAULTS["crash"]]
    runs = [simulated(faults=faults, variance=0.05, seed=seed) for seed in (1, 1, 2)]
    first, second, other = (run.engines.tables.requests.last_ps for run in runs)
    assert (first == second).all()
    assert runs[0].events == runs[1].events
    assert (first != other).any()


@pytest.mark.parametrize("policy", ["round-robin", "least-active", "power-of-two"])
def test_a_cluster_in_which_nothing_happens_is_the_plain_simulation(policy: str) -> None:
    """One gateway, a cap that nobody meets, no look that changes anything: to the picosecond."""
    demand = {"requests": 2000, "rate_per_s": 50, "prompt_tokens": 512, "output_tokens": 100}
    case = case_from(
        {
            "model": "llama-3.1-8b",
            "card": "h100-sxm",
            "replicas": 4,
            "policy": policy,
            "engine": {"max_num_seqs": 64},
            "workload": demand,
        }
    )
    run, _ = simulate_case(case)
    outcome = simulated({"replicas": 4, "cap": 64}, demand, {"gateway": {"gateways": 1, "policy": policy}})
    requests = outcome.engines.tables.requests
    mine = requests.last_ps / PICOSECONDS + outcome.fleet.request_s
    assert np.allclose(run.requests["last_token_s"].to_numpy(float), mine, rtol=0, atol=1e-9)
    assert (run.requests["replica"].to_numpy(int) == requests.replica).all()


def test_littles_law() -> None:
    """Mean in flight = rate x time in the system, within what the ends of the run leave open."""
    outcome = simulated(traffic={"requests": 20_000, "rate_per_s": 100}, sample_s=0.1)
    its, samples = summary_of(outcome), outcome.ground.samples
    running = samples.running[: int(samples.ends[0])].sum(axis=1)[100:-200].mean()
    waiting = samples.waiting[: int(samples.ends[0])].sum(axis=1)[100:-200].mean()
    assert its.e2e_s.mean is not None
    assert running + waiting == pytest.approx(its.requests_per_s * its.e2e_s.mean, rel=0.05)


def test_tokens_are_conserved() -> None:
    outcome = simulated(faults=[FAULTS["slow"]])
    its, requests = summary_of(outcome), outcome.engines.tables.requests
    assert its.ok == 3000
    computed = int(outcome.engines.replicas.computed_tokens.sum())
    assert computed == int((requests.prompt + requests.output - 1).sum())


def test_a_slow_engine_gets_less_and_comes_back() -> None:
    outcome = simulated(faults=[{**FAULTS["slow"], "for_s": 60}], traffic={"requests": 12_000})
    assert len(events_of(outcome, "slow")) >= 2
    assert {about for _, about in events_of(outcome, "slow") if ":" in about} == {"0:1", "1:1"}
    backs = events_of(outcome, "fast")
    assert {about for _, about in backs} == {"0:1", "1:1"}
    assert all(at_s > 70 for at_s, _ in backs)
    requests = outcome.engines.tables.requests
    sent = (requests.arrival_ps > 25 * PICOSECONDS) & (requests.arrival_ps < 65 * PICOSECONDS)
    assert (requests.replica[sent] == 1).mean() < 0.05


def test_what_begun_and_is_cut_is_an_error_and_what_has_not_is_tried_again() -> None:
    outcome = simulated(faults=[FAULTS["crash"]])
    books, requests = outcome.ground.books, outcome.engines.tables.requests
    failed = books.status == FAILED
    assert failed.any()
    assert (requests.first_ps[failed] >= 0).all()
    assert not (books.status == REFUSED).any()


def test_a_hang_costs_time_and_a_crash_none() -> None:
    hung, crashed = (simulated(faults=[FAULTS[kind]]).ground.books.status for kind in ("hang", "crash"))
    assert (hung == TIMED_OUT).sum() > 0
    assert (crashed == TIMED_OUT).sum() == 0


def test_a_full_line_refuses_and_the_better_class_goes_first() -> None:
    outcome = simulated(
        {"replicas": 2, "cap": 8},
        {"requests": 6000, "rate_per_s": 200, "priority": {0: 0.3, 2: 0.7}},
        {"gateway": {"gateways": 1, "queue": {"limit": 64}}},
    )
    require_conserved(outcome)
    chat, batch = (summary_of(outcome, rank=rank) for rank in (0, 2))
    assert batch.refused > 0
    assert chat.ok / chat.arrived > 3 * batch.ok / batch.arrived
    assert outcome.ground.samples.lines.max() <= 64


def test_a_gateway_that_dies_takes_its_own_and_the_others_take_over() -> None:
    outcome = simulated(faults=[FAULTS["gateway"]])
    books, arrival_ps = outcome.ground.books, outcome.engines.tables.requests.arrival_ps
    assert (books.gateway[books.status == FAILED] == 1).all()
    away = (arrival_ps > 10 * PICOSECONDS) & (arrival_ps < 20 * PICOSECONDS)
    assert (books.gateway[away] == 0).all()
    assert (books.status[away] == OK).all()


def test_gateways_that_do_not_know_of_each_other_own_parts_of_a_cap() -> None:
    outcome = simulate_scenario(
        a_scenario({"replicas": 2, "cap": 10}, {"rate_per_s": 300}, {"gateway": {"gateways": 3}})
    )
    caps = outcome.ground.views.columns.cap.reshape(3, 2)
    assert (caps.sum(axis=0) == 10).all()
    assert outcome.ground.samples.running.max() <= 10
