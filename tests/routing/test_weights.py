"""Weights: bounded, in the order of what was seen, calm, and blind to what is common to all."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.routing.weights import MOST_SEEN, Latencies, WeightRule, eased, wanted_weights

RULE = WeightRule()
pools = st.lists(
    st.tuples(st.one_of(st.just(0.0), st.floats(0.001, 30)), st.floats(0, 1)), min_size=1, max_size=20
).map(lambda rows: ([p95_s for p95_s, _ in rows], [used for _, used in rows]))


@given(pool=pools, least=st.floats(0.05, 1))
def test_they_are_bounded_and_the_quick_ones_have_all(pool: Any, least: float) -> None:
    weights = wanted_weights(*pool, WeightRule(least=least))
    assert all(least <= weight <= 1 for weight in weights)
    assert max(weights) == 1
    assert all(weight == 1 for weight, p95_s in zip(weights, pool[0], strict=True) if p95_s == 0)


@given(pool=pools)
def test_who_is_slower_and_busier_has_no_more(pool: Any) -> None:
    weights = wanted_weights(*pool, RULE)
    rows = [row for row in zip(*pool, weights, strict=True) if row[0] > 0]
    for slower in rows:
        assert all(
            slower[2] <= quicker[2] for quicker in rows if quicker[0] <= slower[0] and quicker[1] <= slower[1]
        )


@given(pool=pools, times=st.floats(0.01, 100))
def test_what_slows_all_alike_changes_nothing(pool: Any, times: float) -> None:
    slowed = [p95_s * times for p95_s in pool[0]], pool[1]
    assert wanted_weights(*slowed, RULE) == pytest.approx(wanted_weights(*pool, RULE))


@given(count=st.integers(1, 20), p95_s=st.floats(0.001, 30), used=st.floats(0, 1))
def test_equal_replicas_have_equal_weights(count: int, p95_s: float, used: float) -> None:
    assert wanted_weights([p95_s] * count, [used] * count, RULE) == [1.0] * count


def test_equal_cards_of_400_and_900_ms() -> None:
    assert wanted_weights([0.4, 0.9], [0.5, 0.5], RULE) == [1.0, pytest.approx(4 / 9)]
    assert wanted_weights([0.4, 0.4], [0.2, 1.0], RULE) == [1.0, pytest.approx(0.6)]
    assert wanted_weights([0.01] + [0.4] * 7, [0.5] * 8, RULE) == [1.0] * 8


@given(pool=pools, steps=st.lists(st.floats(0, 20), max_size=30))
def test_they_move_calmly_and_get_there(pool: Any, steps: list[float]) -> None:
    wanted = wanted_weights(*pool, RULE)
    weights = [1.0] * len(wanted)
    for gone_s in steps:
        after = eased(weights, wanted, RULE, gone_s)
        moved = max(abs(one - other) for one, other in zip(weights, after, strict=True))
        assert moved <= (1 - RULE.least) * min(1.0, gone_s / RULE.memory_s) + 1e-9
        weights = after
    assert all(RULE.least <= weight <= 1 for weight in weights)
    at_once = eased([1.0] * len(wanted), wanted, RULE, sum(steps))
    assert weights == pytest.approx(at_once)
    assert eased(weights, wanted, RULE, 20 * RULE.memory_s) == pytest.approx(wanted)


@given(took=st.lists(st.floats(0.001, 60), min_size=1, max_size=400))
def test_the_percentile_is_that_of_the_last_answers(took: list[float]) -> None:
    seen = Latencies()
    for number, seconds in enumerate(took):
        seen.saw(seconds, number * 0.01)
    last = took[-MOST_SEEN:]
    p95_s = seen.p95_s(RULE, 4.0)
    if len(last) < RULE.fewest:
        assert p95_s == 0
    else:
        under, up_to = sum(it < p95_s for it in last), sum(it <= p95_s for it in last)
        assert 100 * under < 95 * len(last) <= 100 * up_to
    assert seen.p95_s(RULE, 4.0 + RULE.memory_s) == 0


def test_what_another_engine_did_is_forgotten() -> None:
    seen = Latencies()
    for _ in range(30):
        seen.saw(1.0, 0.0)
    assert seen.p95_s(RULE, 1.0) == 1
    seen.forget()
    assert seen.p95_s(RULE, 1.0) == 0


@pytest.mark.parametrize(
    "given_rule",
    [{"least": 0}, {"least": 1.1}, {"memory_s": 0}, {"memory_s": inf}, {"fewest": 0}, {"fewest": 257}],
)
def test_a_rule_that_cannot_be_is_refused(given_rule: dict[str, Any]) -> None:
    with pytest.raises(KilocardError, match="give"):
        WeightRule(**given_rule)
