"""How many replicas, by what is used, by what is asked, by what will be."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.autoscale import PoolUse, Scaler, ScaleRule, by_forecast, by_rate, by_use
from kilocard.errors import KilocardError

RULE = ScaleRule(least=2, most=10, cold_start_s=60, grows_s=30, down_for_s=600)
FULL, IDLE = PoolUse(95, 10, 100), PoolUse(10, 0, 100)


def looks(use: list[PoolUse], rule: ScaleRule = RULE, wanted: int = 4, every_s: float = 10.0) -> list[int]:
    scaler, counts = Scaler(), []
    for number, its in enumerate(use):
        scaler, wanted = by_use(scaler, rule, its, wanted, number * every_s)
        counts.append(wanted)
    return counts


def test_up_when_it_is_full_and_the_line_grows_and_not_again_while_one_is_starting() -> None:
    counts = looks([FULL] * 20)
    assert counts.index(5) == 3
    assert counts[3:9] == [5] * 6
    assert counts[9] == 6


def test_a_line_that_shrinks_adds_nobody() -> None:
    assert set(looks([PoolUse(95, 100 - k, 100) for k in range(20)])) == {4}


def test_down_after_half_an_hour_of_idleness_and_one_at_a_time() -> None:
    rule = ScaleRule(least=2, most=10)
    counts = looks([IDLE] * 400, rule)
    assert counts.index(3) == 180
    assert counts.index(2) == 360
    assert min(counts) == 2


def test_a_burst_in_between_starts_the_half_hour_anew() -> None:
    assert set(looks([IDLE] * 59 + [PoolUse(50, 0, 100)] + [IDLE] * 59)) == {4}


@given(
    uses=st.lists(
        st.builds(PoolUse, st.integers(0, 200), st.integers(0, 50), st.integers(0, 100)), max_size=60
    ),
    least=st.integers(1, 4),
    more=st.integers(0, 6),
)
def test_it_stays_between_its_bounds(uses: list[PoolUse], least: int, more: int) -> None:
    rule = ScaleRule(least, least + more, grows_s=0, cold_start_s=0, down_for_s=0)
    counts = looks(uses, rule, wanted=least)
    assert all(least <= count <= least + more for count in counts)
    assert all(abs(after - before) <= 1 for before, after in pairwise(counts))


def test_by_rate_it_is_up_at_once_and_down_later() -> None:
    scaler, rule = Scaler(), ScaleRule(2, 10, down_for_s=60)
    scaler, up = by_rate(scaler, rule, PoolUse(0, 0, 0, per_s=75), 2, 0.0, per_replica_s=10)
    assert up == 8
    scaler, same = by_rate(scaler, rule, PoolUse(0, 0, 0, per_s=30), up, 10.0, per_replica_s=10)
    assert same == 8
    _, down = by_rate(scaler, rule, PoolUse(0, 0, 0, per_s=30), up, 70.0, per_replica_s=10)
    assert down == 3


def test_by_forecast_it_is_the_most_that_will_be_needed() -> None:
    assert by_forecast(RULE, [3.2, 5.1]) == 6
    assert by_forecast(RULE, [0.1]) == 2
    assert by_forecast(RULE, [99]) == 10
    assert by_forecast(RULE, []) == 2


def test_rules_that_would_never_rest_are_refused() -> None:
    with pytest.raises(KilocardError, match="up and down without end"):
        ScaleRule(1, 2, up_use=0.5, down_use=0.6)
    with pytest.raises(KilocardError, match="1 or more"):
        ScaleRule(3, 2)
