"""Slow replicas are found, few at once, not for their load, and come back."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.routing.slow import FAST, Judged, Paced, Slowness, SlowRule, judge, times_usual

RULE = SlowRule(floor_s=0.0)
TICK_S = 1.0


def seen_of(paces: list[float], now_s: float = 0.0, loads: list[float] | None = None) -> list[Paced]:
    loads = loads or [4.0] * len(paces)
    return [Paced(pace, load, now_s, True) for pace, load in zip(paces, loads, strict=True)]


def looked_at(
    looks: list[list[Paced]], rule: SlowRule = RULE, pool: list[Slowness] | None = None, begin_s: float = 0.0
) -> list[Judged]:
    """What is judged at each look, one a second."""
    pool = pool or [FAST] * len(looks[0])
    judged = []
    for number, seen in enumerate(looks):
        judged.append(judge(pool, rule, seen, begin_s + number * TICK_S))
        pool = judged[-1].pool
    return judged


def steady(paces: list[float], seconds: int, rule: SlowRule = RULE) -> Judged:
    return looked_at([seen_of(paces, now_s) for now_s in range(seconds)], rule)[-1]


replicas = st.builds(
    Paced,
    tpot_s=st.sampled_from([0.0, 0.005, 0.006, 0.01, 0.02, 0.05, 0.3]),
    load=st.sampled_from([0.0, 1.0, 7.5, 64.0]),
    seen_s=st.floats(0, 10),
    is_in=st.booleans(),
)
pools = st.lists(replicas, min_size=1, max_size=24)
looks_at_pools = st.integers(1, 12).flatmap(
    lambda size: st.lists(st.lists(replicas, min_size=size, max_size=size), min_size=1, max_size=12)
)


@given(looks=looks_at_pools, most_share=st.sampled_from([0.1, 0.3, 1.0]))
def test_never_more_than_a_share_is_slow_and_none_that_is_out(
    looks: list[list[Paced]], most_share: float
) -> None:
    rule = SlowRule(floor_s=0.0, hold_s=1.0, most_share=most_share)
    for seen, judged in zip(looks, looked_at(looks, rule), strict=True):
        slow = [it for it, paced in zip(judged.pool, seen, strict=True) if it.slow and paced.is_in]
        assert sum(it.slow for it in judged.pool) == len(slow)
        assert len(slow) <= most_share * sum(paced.is_in for paced in seen) + 1e-6
        assert judged.shares(rule) == [0.2 if it.slow else 1.0 for it in judged.pool]


@given(
    loads=st.lists(st.floats(0, 256), min_size=2, max_size=16),
    base_s=st.floats(1e-3, 0.1),
    part=st.floats(0, 1),
)
def test_load_alone_makes_nobody_slow(loads: list[float], base_s: float, part: float) -> None:
    paces = [base_s * (1 + part * load) for load in loads]
    assert max(times_usual(seen_of(paces, loads=loads), RULE)) <= 1 + 1e-9


@given(seen=pools)
def test_what_is_left_out_is_under_the_mark(seen: list[Paced]) -> None:
    """The short way round the medians changes no judgement."""
    every = SlowRule(recovered_ratio=1.0 + 1e-12, ratio=2.0)
    for quick, whole, paced in zip(times_usual(seen, RULE), times_usual(seen, every), seen, strict=True):
        assert quick == whole or (quick == 0 and whole < RULE.recovered_ratio and paced.tpot_s < inf)


def test_the_slow_one_is_found_after_its_time_and_hinted_at() -> None:
    looks = [seen_of([0.005] * 7 + [0.025], now_s) for now_s in range(100)]
    judged = looked_at(looks)
    first = next(at for at, it in enumerate(judged) if it.pool[7].slow)
    assert first == RULE.hold_s / TICK_S
    assert all(it.pool[7].slow and not any(other.slow for other in it.pool[:7]) for it in judged[first:])
    hinted = [at for at, it in enumerate(judged) if it.restart == [7]]
    assert hinted == list(range(first + int(RULE.restart_after_s), 100))


def test_the_worst_come_first_and_leave_their_place_to_one_that_is_clearly_worse() -> None:
    usual = [0.01] * 8
    assert [it.slow for it in steady([*usual, 0.03, 0.05, 0.04, 0.06], 20).pool[8:]] == [
        False, True, True, True,
    ]  # fmt: skip
    before = steady([*usual, 0.03, 0.031, 0.032, 0.01], 20).pool
    assert [it.slow for it in before[8:]] == [True, True, True, False]
    for pace, displaced in ((0.035, False), (0.06, True)):
        looks = [seen_of([*usual, 0.03, 0.031, 0.032, pace], now_s) for now_s in range(20, 40)]
        after = looked_at(looks, pool=before, begin_s=20)[-1].pool
        assert [it.slow for it in after[8:]] == [not displaced, True, True, displaced]


@given(noise=st.lists(st.floats(1.52, 1.98), min_size=60, max_size=60), begins_slow=st.booleans())
def test_between_the_marks_nothing_changes(noise: list[float], begins_slow: bool) -> None:
    pool = [FAST] * 7 + [Slowness(True, 0.0) if begins_slow else FAST]
    judged = looked_at(
        [seen_of([0.01] * 7 + [0.01 * times], now_s) for now_s, times in enumerate(noise)], pool=pool
    )
    assert {it.pool[7].slow for it in judged} == {begins_slow}


@given(noise=st.lists(st.floats(0.2, 10), min_size=80, max_size=80))
def test_whatever_it_does_it_changes_no_oftener_than_the_rule_says(noise: list[float]) -> None:
    judged = looked_at([seen_of([0.01] * 7 + [0.01 * times], now_s) for now_s, times in enumerate(noise)])
    slow = [False] + [it.pool[7].slow for it in judged]
    turns = [at for at in range(1, len(slow)) if slow[at] != slow[at - 1]]
    for before, after in pairwise(turns):
        assert (after - before) * TICK_S >= (RULE.calm_s if slow[before] else RULE.hold_s)


@given(slow_for=st.integers(5, 60), times=st.floats(2.5, 50))
def test_one_that_is_fast_again_is_back_in_bounded_time(slow_for: int, times: float) -> None:
    paces = [0.01 * times] * slow_for + [0.01] * int(RULE.calm_s + 2)
    judged = looked_at([seen_of([0.01] * 7 + [pace], now_s) for now_s, pace in enumerate(paces)])
    assert judged[slow_for - 1].pool[7].slow and not judged[-1].pool[7].slow


def test_one_that_nobody_asks_is_tried_again() -> None:
    """Its pace is forgotten, so that policies ask it as any other; a known pace then decides."""
    stale = [[*seen_of([0.01] * 7, now_s), Paced(0.05, 0.0, 0.0, True)] for now_s in range(30)]
    judged = looked_at(stale)
    first = next(at for at, it in enumerate(judged) if it.forget == [7])
    assert first == RULE.hold_s + RULE.trial_s
    unknown = [[*seen_of([0.01] * 7, now_s), Paced(0.0, 0.0, 0.0, True)] for now_s in range(30, 90)]
    later = looked_at(unknown, pool=judged[-1].pool, begin_s=30)[-1]
    assert later.pool[7].slow and later.forget == []
    known = [seen_of([0.01] * 8, now_s) for now_s in range(90, 102)]
    assert not looked_at(known, pool=later.pool, begin_s=90)[-1].pool[7].slow


@given(paces=st.lists(st.floats(0.001, 0.02), min_size=1, max_size=12))
def test_under_the_floor_nobody_is_slow(paces: list[float]) -> None:
    assert not any(it.slow for it in steady(paces, 10, SlowRule(floor_s=0.02)).pool)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_of_a_few_none_is_slow(count: int) -> None:
    assert not any(it.slow for it in steady([0.5] + [0.01] * (count - 1), 20).pool)


def test_one_that_fell_begins_anew() -> None:
    pool = steady([0.01] * 7 + [0.05], 20).pool
    seen = [*seen_of([0.01] * 7, 20), Paced(0.05, 0, 20, False)]
    assert judge(pool, RULE, seen, 20).pool[7] == FAST


@pytest.mark.parametrize(
    "given_rule",
    [
        {"ratio": 1.2},
        {"recovered_ratio": 1.0},
        {"ratio": inf},
        {"floor_s": -1},
        {"hold_s": inf},
        {"trial_s": 0},
        {"share": 0},
        {"most_share": 1.1},
    ],
)
def test_a_rule_that_cannot_be_is_refused(given_rule: dict[str, Any]) -> None:
    with pytest.raises(KilocardError, match="give"):
        SlowRule(**given_rule)


def test_an_empty_pool_has_nobody_slow() -> None:
    assert judge([], RULE, [], 1.0) == Judged([], [], [])
    assert times_usual([], RULE) == []
