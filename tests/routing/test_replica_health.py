"""Health: what counts against an engine, how it falls, and that it comes back."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.routing.health import (
    ENGINES_OWN,
    Ending,
    Health,
    HealthRule,
    State,
    ending_of,
    in_panic,
    probed,
    request_ended,
    settled,
    share,
    shares,
    shown,
    started,
)
from kilocard.routing.probes import probe_delay_s, probe_period_s

RULE = HealthRule()
IN = (State.UP, State.RECOVERING)
rules = st.builds(
    HealthRule,
    most_failures=st.integers(1, 5),
    most_misses=st.integers(1, 4),
    good_probes=st.integers(1, 4),
    ramp_s=st.sampled_from([0.0, 1.0, 10.0]),
    ramp_from=st.sampled_from([0.05, 0.5, 1.0]),
)
endings = st.sampled_from(list(Ending))
events = st.lists(
    st.tuples(st.booleans(), endings, st.floats(0, 20), st.floats(0, 30), st.booleans()), max_size=40
)


def lived(rule: HealthRule, events: list[Any]) -> tuple[list[Health], float]:
    """All states of a replica to which these things happened, and when that was over."""
    now_s, health = 100.0, started(100.0)
    states = [health]
    for is_probe, ending, after_s, lasted_s, alive in events:
        now_s += after_s
        if is_probe:
            health = probed(health, rule, ending, now_s, alive)
        else:
            health = request_ended(health, rule, ending, now_s - lasted_s, now_s, alive)
        states.append(health)
    return states, now_s


def up(now_s: float = 0.0) -> Health:
    return Health(State.UP, now_s)


@given(rule=rules, events=events, ending=endings, alive=st.booleans())
def test_what_is_not_the_engines_own_changes_nothing(
    rule: HealthRule, events: list[Any], ending: Ending, alive: bool
) -> None:
    states, now_s = lived(rule, events)
    health = states[-1]
    if ending not in ENGINES_OWN | {Ending.OK} or (ending is Ending.HANG and alive):
        assert request_ended(health, rule, ending, now_s, now_s, alive) == health
    assert probed(health, rule, Ending.BUSY, now_s, alive) == health
    assert probed(health, rule, Ending.HANG, now_s, alive=True) == health


@given(rule=rules, events=events)
def test_it_goes_from_state_to_state_as_it_may(rule: HealthRule, events: list[Any]) -> None:
    states, _ = lived(rule, events)
    allowed = {
        State.STARTING: {State.STARTING, State.RECOVERING},
        State.RECOVERING: {State.RECOVERING, State.UP, State.DOWN},
        State.UP: {State.UP, State.DOWN},
        State.DOWN: {State.DOWN, State.RECOVERING},
    }
    for before, after in pairwise(states):
        assert after.state in allowed[before.state]


@given(rule=rules, events=events, later_s=st.floats(0, 30))
def test_only_those_that_are_in_have_a_share(rule: HealthRule, events: list[Any], later_s: float) -> None:
    states, now_s = lived(rule, events)
    for health in states:
        mine = share(health, rule, now_s + later_s)
        assert 0 <= mine <= 1 and (mine > 0) == (health.state in IN)


@given(rule=rules, events=events, ending=st.sampled_from([Ending.CUT, Ending.FAULT, Ending.HANG]))
def test_so_many_failures_in_a_row_bring_it_down_and_no_fewer(
    rule: HealthRule, events: list[Any], ending: Ending
) -> None:
    states, now_s = lived(rule, events)
    health = settled(request_ended(states[-1], rule, Ending.OK, now_s, now_s), rule, now_s + 100)
    if health.state is not State.UP:
        return
    for number in range(1, rule.most_failures + 1):
        health = request_ended(health, rule, ending, now_s + 100, now_s + 100)
        assert (health.state is State.DOWN) == (number == rule.most_failures)


def test_a_success_between_starts_the_count_again() -> None:
    health = up()
    for number in range(30):
        ending = Ending.OK if number % 3 == 2 else Ending.FAULT
        health = request_ended(health, RULE, ending, 1, 1)
    assert health.state is State.UP


@given(rule=rules)
def test_where_nobody_listens_it_is_down_at_once(rule: HealthRule) -> None:
    for health in (probed(up(), rule, Ending.REFUSED, 1), request_ended(up(), rule, Ending.REFUSED, 1, 1)):
        assert health.state is State.DOWN and health.refused


@pytest.mark.parametrize("ending", [Ending.HANG, Ending.FAULT, Ending.CUT, Ending.CLIENT])
def test_probes_that_fail_bring_it_down(ending: Ending) -> None:
    health = up()
    for _ in range(RULE.most_misses):
        assert health.state is State.UP
        health = probed(health, RULE, ending, 1)
    assert health.state is State.DOWN


def test_it_takes_nothing_before_it_has_answered() -> None:
    """A load that takes minutes is no failure, and one answer ends it."""
    health = started(0)
    for now_s in range(600):
        health = probed(health, RULE, Ending.REFUSED, now_s)
        assert share(health, RULE, now_s) == 0 and health.state is State.STARTING
        assert probe_period_s(health, RULE, 8, 2) == RULE.down_interval_s
    assert probed(health, RULE, Ending.OK, 600).state is State.RECOVERING


def test_what_was_sent_before_it_fell_is_not_held_against_it() -> None:
    """A thousand streams of an engine that was killed end when its successor runs already."""
    health = request_ended(up(), RULE, Ending.REFUSED, 10, 10)
    for now_s in (12, 13):
        health = probed(health, RULE, Ending.OK, now_s)
    assert health.state is State.RECOVERING
    for _ in range(1000):
        health = request_ended(health, RULE, Ending.HANG, 9, 14)
    assert health.state is State.RECOVERING
    assert request_ended(health, RULE, Ending.HANG, 13.5, 14).state is State.DOWN


@given(rule=rules, begin_s=st.floats(0, 1e6))
def test_it_comes_back_by_and_by(rule: HealthRule, begin_s: float) -> None:
    health = probed(started(begin_s), rule, Ending.OK, begin_s)
    parts = [share(health, rule, begin_s + part / 20 * rule.ramp_s) for part in range(21)]
    assert parts == sorted(parts) and parts[-1] == pytest.approx(1)
    assert parts[0] == (rule.ramp_from if rule.ramp_s else 1)


@given(rule=rules, events=events, gateways=st.integers(1, 4), replica=st.integers(0, 7))
def test_an_engine_that_is_well_is_back_in_bounded_time(
    rule: HealthRule, events: list[Any], gateways: int, replica: int
) -> None:
    states, well_s = lived(rule, events)
    health, now_s, probes = states[-1], well_s, 0
    place: dict[str, Any] = {"replica": replica, "replicas": 8, "gateway": gateways - 1, "gateways": gateways}
    while health.state not in IN:
        now_s += probe_delay_s(health, rule, **place, shared_s=now_s)
        health = probed(health, rule, Ending.OK, now_s)
        probes += 1
    assert probes <= rule.good_probes
    assert now_s <= well_s + (probes + 0.1 * probes) * rule.most_interval_s
    assert share(health, rule, now_s + rule.ramp_s) == pytest.approx(1)


def fallen_and_back(health: Health, now_s: float) -> Health:
    health = request_ended(health, RULE, Ending.REFUSED, now_s, now_s)
    for _ in range(RULE.good_probes):
        health = probed(health, RULE, Ending.OK, now_s + 1)
    return health


def test_one_that_falls_again_and_again_is_tried_ever_more_rarely_until_it_is_calm() -> None:
    health, now_s, periods = up(), 1000.0, []
    for _ in range(8):
        health = fallen_and_back(health, now_s)
        now_s += RULE.ramp_s + 2
        fallen = request_ended(health, RULE, Ending.REFUSED, now_s, now_s)
        periods.append(probe_period_s(fallen, RULE, 8, 1))
    assert periods == [2, 4, 8, 16, 30, 30, 30, 30]
    calm_s = now_s + RULE.ramp_s + RULE.calm_s + 2
    calm = request_ended(settled(health, RULE, calm_s), RULE, Ending.REFUSED, calm_s, calm_s)
    assert probe_period_s(calm, RULE, 8, 1) == 1


@given(lives=st.lists(events, min_size=1, max_size=6))
def test_all_are_used_where_all_are_suspected_but_none_where_nobody_listens(lives: list[list[Any]]) -> None:
    pool = [lived(RULE, life)[0][-1] for life in lives]
    parts = shares(pool, RULE, 2000)
    suspected = [it.state is State.DOWN and not it.refused for it in pool]
    if any(it.state in IN for it in pool):
        assert not in_panic(pool)
        assert all((part > 0) == (it.state in IN) for part, it in zip(parts, pool, strict=True))
    else:
        assert parts == [float(one) for one in suspected] and in_panic(pool) == any(suspected)


def test_slow_is_shown_of_one_that_takes_requests() -> None:
    assert shown(up(), slow=True) is State.SLOW and shown(up(), slow=False) is State.UP
    assert shown(Health(State.RECOVERING, 0), slow=True) is State.SLOW
    assert shown(started(0), slow=True) is State.STARTING


def test_what_a_status_says() -> None:
    assert [ending_of(status) for status in (200, 400, 404, 429, 499, 500, 502, 503, 504)] == [
        Ending.OK, Ending.CLIENT, Ending.CLIENT, Ending.BUSY, Ending.CLIENT,
        Ending.FAULT, Ending.FAULT, Ending.FAULT, Ending.FAULT,
    ]  # fmt: skip
    assert ending_of(503, retry_after=True) is Ending.BUSY


@pytest.mark.parametrize(
    "given_rule",
    [
        {"most_failures": 0},
        {"good_probes": 0},
        {"interval_s": 0},
        {"most_probes_per_s": inf},
        {"ramp_s": -1},
        {"calm_s": float("nan")},
        {"ramp_from": 0},
        {"ramp_from": 1.5},
        {"down_interval_s": 60},
    ],
)
def test_a_rule_that_cannot_be_is_refused(given_rule: dict[str, Any]) -> None:
    with pytest.raises(KilocardError, match=r"give|raise"):
        HealthRule(**given_rule)
