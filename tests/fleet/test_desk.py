"""The simulated gateway: its line before capped engines, engines that are slow, and that nothing is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.engine_model.calibration import calibration_for
from kilocard.errors import KilocardError
from kilocard.fleet import simulate_case
from kilocard.fleet.simulate import simulate_traffic
from kilocard.fleet.traffic import draw_traffic
from kilocard.routing.policies import POLICIES
from kilocard.specs import Case, case_from

LENGTHS = {"kind": "lognormal", "mean_tokens": 60, "cv": 1.0, "most_tokens": 400}


def a_case(workload: dict[str, Any] | None = None, **changes: Any) -> Case:
    asked = {"rate_per_s": 60, "requests": 300, "prompt_tokens": 300, "output_tokens": LENGTHS}
    return case_from(
        {
            "model": "qwen3-8b", "card": "h100-sxm", "replicas": 3,
            "workload": asked | (workload or {}), **changes,
        }
    )  # fmt: skip


def simulated(case: Case) -> Any:
    """The requests as the engines left them, in picoseconds."""
    traffic = draw_traffic(case.workload, case.seed)
    return simulate_traffic(case, traffic, calibration_for("h100-sxm", None)).engines.tables.requests


def most_in_flight(requests: Any) -> int:
    """The most that one engine computed at once."""
    most = 0
    for r in np.unique(requests.replica):
        mine = requests[requests.replica == r]
        steps = sorted([(t, 1) for t in mine.scheduled_ps] + [(t, -1) for t in mine.last_ps])
        most = max(most, int(np.cumsum([step for _, step in steps]).max()))
    return most


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(POLICIES)),
    st.integers(1, 6),
    st.sampled_from([5.0, 60.0, 600.0]),
    st.sampled_from([1, 3]),
    st.booleans(),
)
def test_all_are_answered_once_and_no_engine_holds_more_than_its_cap(
    policy: str, cap: int, rate: float, turns: int, ahead: bool
) -> None:
    load = {"rate_per_s": rate, "requests": 40, "turns": turns}
    requests = simulated(a_case(load, policy=policy, cap=cap, engine={"async_scheduling": ahead}))
    assert len(requests) == 40 * turns
    assert (requests.arrival_ps <= requests.scheduled_ps).all()
    assert (requests.scheduled_ps < requests.first_ps).all()
    assert (requests.first_ps <= requests.last_ps).all()
    assert most_in_flight(requests) <= cap


@pytest.mark.parametrize("policy", ["round-robin", "least-active", "least-delay"])
def test_a_line_is_served_in_order_and_while_it_stands_nobody_has_room(policy: str) -> None:
    run, _ = simulate_case(a_case({"rate_per_s": 400}, policy=policy, cap=2))
    table = run.requests.sort_values("sent_s")
    let_in = (table["sent_s"] + table["queue_s"]).to_numpy(float)
    waited = table["queue_s"].to_numpy(float) > 0.5
    assert waited.sum() > 100
    assert (np.diff(let_in[waited]) >= -0.05).all()
    ends = np.sort(table["last_token_s"].to_numpy(float))
    for moment in np.quantile(let_in[waited], [0.1, 0.5, 0.9]):
        held = int((let_in <= moment).sum() - (ends <= moment).sum())
        assert held >= 5


def test_a_cap_that_nobody_reaches_changes_nothing() -> None:
    free, _ = simulate_case(a_case())
    capped, _ = simulate_case(a_case(cap=10_000))
    assert free.requests.equals(capped.requests)


def test_an_engine_that_is_slow_takes_so_many_times_as_long() -> None:
    alone = {"rate_per_s": 0.2, "requests": 10, "output_tokens": 50, "arrivals": "constant"}
    well, ill = (
        simulate_case(a_case(alone, replicas=1, slow=slow))[1]["run"]["tpot_s"]["mean"]
        for slow in ({}, {0: 5.0})
    )
    assert ill / well == pytest.approx(5, rel=1e-4)


def test_the_reference_leaves_a_slow_engine_alone_and_least_active_does_not() -> None:
    shares, tails = {}, {}
    for policy in ("least-active", "least-delay"):
        case = a_case({"requests": 3000}, replicas=8, slow={3: 5.0}, policy=policy)
        run, result = simulate_case(case)
        shares[policy] = (run.requests["replica"] == "3").mean()
        tails[policy] = result["run"]["tpot_s"]["p99"]
    assert shares["least-delay"] < 0.01 < shares["least-active"]
    assert tails["least-active"] > 2 * tails["least-delay"]


def test_prompts_go_where_their_beginnings_are() -> None:
    chat = {
        "rate_per_s": 10, "prompt_tokens": 1200, "turns": {"count": 3, "think_s": 1},
        "system_prompts": {"count": 5, "tokens": 1000},
    }  # fmt: skip
    hits = {
        policy: simulate_case(a_case(chat, policy=policy))[1]["run"]["prefix_hit_ratio"]
        for policy in ("least-active", "least-delay", "prefix-affinity")
    }
    assert hits["prefix-affinity"] > 1.15 * hits["least-active"]
    assert hits["least-delay"] > 1.1 * hits["least-active"]


def test_the_same_seed_gives_the_same_run() -> None:
    chat = {"turns": {"count": 3, "think_s": 0.2}, "system_prompts": {"count": 2, "tokens": 128}}
    runs = [simulate_case(a_case(chat, policy="least-delay", cap=5))[0].requests for _ in range(2)]
    assert runs[0].equals(runs[1])


def nobody(replicas, arrival, random):
    return -1


def test_a_policy_that_names_nobody_is_told_before_caps_too() -> None:
    with pytest.raises(KilocardError, match="300 of 300 requests have no answer: the policy nobody named"):
        simulate_case(a_case(cap=3), nobody)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slow": {3: 5.0}}, "slow names engine 3, and there are 0 to 2"),
        ({"slow": {-1: 5.0}}, "slow.-1"),
        ({"slow": {0: 0.0}}, "slow.0"),
        ({"slow": {0: float("inf")}}, "finite"),
        ({"slow": {0: True}}, "true and false are no numbers"),
        ({"cap": 0}, "cap: "),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(KilocardError, match=said):
        a_case(**changes)
