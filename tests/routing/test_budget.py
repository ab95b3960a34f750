"""Second tries stay a share of the requests."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.routing.budget import RetryBudget, RetryRule

ROUNDING = 1e-6

rules = st.builds(
    RetryRule,
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    floor=st.sampled_from([0.0, 1.0, 10.0]),
    memory_s=st.sampled_from([1.0, 10.0]),
)
doings = st.lists(st.tuples(st.booleans(), st.floats(0, 3)), max_size=120)


@given(rule=rules, doings=doings)
def test_there_are_never_more_than_the_budget_allows(
    rule: RetryRule, doings: list[tuple[bool, float]]
) -> None:
    budget, now_s, requests, retries = RetryBudget(rule), 50.0, 0, 0
    for is_request, after_s in doings:
        now_s += after_s
        if is_request:
            budget.asked(now_s)
            requests += 1
        else:
            retries += budget.may_retry(now_s, 0, began=False)
        most = rule.share * requests + rule.floor * (1 + (now_s - 50) / rule.memory_s)
        assert retries <= most + ROUNDING


@given(rule=rules, requests=st.integers(0, 200))
def test_where_all_fail_the_share_is_used(rule: RetryRule, requests: int) -> None:
    budget = RetryBudget(rule)
    for _ in range(requests):
        budget.asked(1)
    granted = sum(budget.may_retry(1, 0, began=False) for _ in range(1000))
    assert granted == int(rule.share * requests + rule.floor + ROUNDING)


def test_never_once_it_has_begun_nor_too_often() -> None:
    budget = RetryBudget(RetryRule(most=2, floor=100))
    assert not budget.may_retry(1, 0, began=True)
    assert [budget.may_retry(1, tries, began=False) for tries in range(4)] == [True, True, False, False]


@given(doings=doings, quiet_s=st.floats(100, 1e6))
def test_after_a_quiet_time_the_floor_is_there_again(
    doings: list[tuple[bool, float]], quiet_s: float
) -> None:
    budget, now_s = RetryBudget(RetryRule(floor=3)), 0.0
    for is_request, after_s in doings:
        now_s += after_s
        if is_request:
            budget.asked(now_s)
        else:
            budget.may_retry(now_s, 0, began=False)
    granted = [budget.may_retry(now_s + quiet_s, 0, began=False) for _ in range(4)]
    assert granted[:2] == [True, True] and not granted[3]


@pytest.mark.parametrize(
    "given_rule",
    [{"share": 1.1}, {"share": -0.1}, {"floor": -1}, {"floor": inf}, {"most": -1}, {"memory_s": 0}],
)
def test_a_rule_that_cannot_be_is_refused(given_rule: dict[str, Any]) -> None:
    with pytest.raises(KilocardError, match="give"):
        RetryRule(**given_rule)
