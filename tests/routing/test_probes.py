"""Probes of many gateways: each in its time, and never a storm."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.routing.health import Health, HealthRule, State, started
from kilocard.routing.probes import probe_delay_s, probe_period_s

UP = Health(State.UP, 0)
ROUNDING_S = 1e-6

fleets = st.tuples(st.integers(1, 24), st.integers(1, 4))


def probes(
    healths: list[Health], gateways: int, rule: HealthRule, begin_s: float, seconds: float, late_s: float = 0
) -> list[tuple[float, int, int]]:
    """When who probes whom, if all gateways start at once and their timers are a little late."""
    seen = []
    for gateway in range(gateways):
        for replica, health in enumerate(healths):
            now_s = begin_s
            while now_s < begin_s + seconds:
                now_s += late_s + probe_delay_s(
                    health, rule, replica=replica, replicas=len(healths), gateway=gateway,
                    gateways=gateways, shared_s=now_s,
                )  # fmt: skip
                seen.append((now_s, gateway, replica))
    return sorted(seen)


def most_within(times: list[float], window_s: float) -> int:
    """The most probes that fall into any window."""
    most, first = 0, 0
    for last, time_s in enumerate(times):
        while times[first] < time_s - window_s:
            first += 1
        most = max(most, last - first + 1)
    return most


@given(fleet=fleets, begin_s=st.floats(0, 2e9), budget=st.sampled_from([2.0, 20.0, 200.0]))
@settings(max_examples=30)
def test_gateways_that_start_together_do_not_probe_together(
    fleet: tuple[int, int], begin_s: float, budget: float
) -> None:
    replicas, gateways = fleet
    rule = HealthRule(most_probes_per_s=budget)
    times = [time_s for time_s, *_ in probes([UP] * replicas, gateways, rule, begin_s, 30)]
    for window_s in (0.0, 0.1, 1.0, 5.0):
        assert (
            most_within(times, window_s) <= window_s * min(budget, replicas * gateways / 5) + 1 + ROUNDING_S
        )


states = st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=24)


@given(states=states, gateways=st.integers(1, 4), budget=st.sampled_from([2.0, 20.0]))
@settings(max_examples=30)
def test_the_budget_holds_whatever_state_the_replicas_are_in(
    states: list[tuple[bool, int, int]], gateways: int, budget: float
) -> None:
    rule = HealthRule(most_probes_per_s=budget)
    healths = [
        UP if is_up else Health(State.DOWN, 0, falls=falls, tries=tries) for is_up, tries, falls in states
    ]
    times = [time_s for time_s, *_ in probes(healths, gateways, rule, 1e9, 40)]
    pairs = len(healths) * gateways
    assert sum(gateways / probe_period_s(health, rule, len(healths), gateways) for health in healths) <= (
        budget * (1 + ROUNDING_S)
    )
    assert len(times) <= 40 * budget + 2 * pairs
    periods = {probe_period_s(health, rule, len(healths), gateways) for health in healths}
    for window_s in (1.0, 10.0):
        most = sum(window_s * pairs / period_s + 1 for period_s in periods)
        assert most_within(times, window_s) <= most + ROUNDING_S


@given(fleet=fleets, late_s=st.floats(-0.01, 0.2))
@settings(max_examples=30)
def test_each_is_probed_by_each_once_a_period(fleet: tuple[int, int], late_s: float) -> None:
    replicas, gateways = fleet
    rule = HealthRule()
    period_s = probe_period_s(UP, rule, replicas, gateways)
    seen = probes([UP] * replicas, gateways, rule, 1e9, 10 * period_s, late_s)
    counts = Counter((gateway, replica) for _, gateway, replica in seen)
    assert set(counts.values()) <= {10, 11, 12} and len(counts) == replicas * gateways


@pytest.mark.parametrize("gateways", [1, 2, 5])
def test_gateways_take_turns_at_a_replica(gateways: int) -> None:
    times = [time_s for time_s, *_ in probes([UP], gateways, HealthRule(), 1e9, 60)]
    gaps = [round(later - time_s, 4) for time_s, later in pairwise(times)]
    assert set(gaps[gateways:-gateways]) == {round(5 / gateways, 4)}


def test_the_budget_stretches_the_period() -> None:
    rule = HealthRule(interval_s=5, most_probes_per_s=200)
    assert probe_period_s(UP, rule, replicas=100, gateways=4) == 5
    assert probe_period_s(UP, rule, replicas=1000, gateways=8) == 40
    assert probe_period_s(started(0), rule, replicas=8, gateways=2) == 1
    assert probe_period_s(Health(State.DOWN, 0, falls=1, tries=2000), rule, 8, 2) == 30


@pytest.mark.parametrize(("replica", "gateway"), [(-1, 0), (3, 0), (0, 2), (0, -1)])
def test_who_is_not_of_the_fleet_is_refused(replica: int, gateway: int) -> None:
    with pytest.raises(KilocardError, match="count both from 0"):
        probe_delay_s(
            UP, HealthRule(), replica=replica, replicas=3, gateway=gateway, gateways=2, shared_s=1e9
        )
