"""Canaries: what is slower, fails or answers badly is seen, and chance is not blamed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.lifecycle import CanaryRule, Served, Verdict, judge
from kilocard.lifecycle.canary import at_least, chance_of_greater

RULE = CanaryRule(least_requests=40, within_s=100)


def served(seed: int, count: int = 40, tpot_s: float = 0.02, errors: int = 0) -> Served:
    drawn = random.Random(seed)
    ttft = tuple(drawn.lognormvariate(-2, 0.5) for _ in range(count))
    tpot = tuple(drawn.lognormvariate(0, 0.2) * tpot_s for _ in range(count))
    return Served(count, errors, ttft, tpot)


def test_an_equal_one_goes_on_when_enough_was_served() -> None:
    verdict, reason = judge(served(1), served(2, 200), [True], 10, RULE)
    assert (verdict, reason) == (Verdict.GOOD, "40 requests served, 0 with an error of its own")
    assert judge(served(1, 39), served(2, 200), [], 10, RULE)[0] is Verdict.WAIT
    late, reason = judge(served(1, 5), served(2, 200), [], 100, RULE)
    assert late is Verdict.GOOD and "only 5 of 40 requests came" in reason


def test_silence_is_no_praise() -> None:
    verdict, reason = judge(served(1, 4), served(2, 200), [], 100, RULE)
    assert (verdict, reason) == (Verdict.WAIT, "4 of 40 requests, and no sample, in 100 s")
    assert judge(Served(), served(2, 200), [True], 100, RULE)[0] is Verdict.GOOD


def test_a_slower_one_is_refused_as_soon_as_it_is_sure() -> None:
    verdict, reason = judge(served(1, 12, tpot_s=0.04), served(2, 200), [], 1, RULE)
    assert verdict is Verdict.BAD
    assert "its median TPOT is 2." in reason


def test_two_slow_requests_are_no_slow_version() -> None:
    assert judge(served(1, 2, tpot_s=0.04), served(2, 200), [], 1, RULE)[0] is Verdict.WAIT


def test_errors_and_samples_are_refused() -> None:
    assert judge(served(1, 40, errors=8), served(2, 200), [], 1, RULE)[0] is Verdict.BAD
    assert (
        judge(served(1, 10, errors=1), served(2, 200), [], 1, CanaryRule(most_errors=0.05))[0] is Verdict.WAIT
    )
    verdict, reason = judge(Served(), Served(), [True, False], 1, RULE)
    assert verdict is Verdict.BAD and reason == "1 of 2 samples were answered well, 100% must be"


def test_nobody_to_compare_with_is_no_fault() -> None:
    assert judge(served(1), Served(), [], 1, RULE)[0] is Verdict.GOOD


def test_equal_versions_are_hardly_ever_refused() -> None:
    refused = sum(
        judge(served(seed, 40), served(seed + 10_000, 100), [], 1, RULE)[0] is Verdict.BAD
        for seed in range(300)
    )
    assert refused <= 6


@given(
    st.lists(st.floats(0.001, 10), min_size=1, max_size=30),
    st.lists(st.floats(0.001, 10), min_size=1, max_size=30),
)
def test_ranks_are_a_chance_and_turn_round(own: list[float], others: list[float]) -> None:
    chance = chance_of_greater(own, others)
    assert 0 <= chance <= 1
    assert chance + chance_of_greater(others, own) == pytest.approx(1)


@given(st.integers(0, 50), st.integers(0, 200), st.floats(0, 1))
def test_more_errors_are_less_likely(errors: int, requests: int, share: float) -> None:
    assert 0 <= at_least(errors + 1, requests, share) <= at_least(errors, requests, share) + 1e-9 <= 1 + 1e-9


def test_the_binomial_is_the_books() -> None:
    assert at_least(1, 10, 0.1) == pytest.approx(1 - 0.9**10)
    assert at_least(2, 10, 0.1) == pytest.approx(1 - 0.9**10 - 10 * 0.1 * 0.9**9)
