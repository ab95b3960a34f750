"""What company costs is learned for what it is, never falls, and between levels is a straight line."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kilocard.engine_model.compiled import plain
from kilocard.routing import company
from kilocard.routing.company import COUNT, LEVELS, MEMORY_TOKENS, MOST, PACE_S, SEEN_S, TOKENS, new_company

learn, pace_s, settle_paces = map(plain, (company.learn, company.pace_s, company.settle_paces))

ENGINES: dict[str, Callable[[float], float]] = {
    "seats for four": lambda n: 0.005 * max(1.0, n / 4),
    "each slows all": lambda n: 0.01 + 0.0005 * n,
    "nobody slows anybody": lambda n: 0.02,
}
DEEDS = st.lists(st.tuples(st.integers(0, 2000), st.floats(1e-4, 1.0), st.integers(1, 5000)), max_size=60)


def slopes(table: np.ndarray) -> np.ndarray:
    return np.diff(table[PACE_S]) / np.diff(LEVELS)


@pytest.mark.parametrize("name", ENGINES)
def test_each_kind_of_engine_is_learned_within_a_tenth(name: str) -> None:
    engine, random, table = ENGINES[name], np.random.default_rng(5), new_company()
    for _ in range(6000):
        active = int(random.integers(1, 24))
        learn(table, active, engine(active) * random.lognormal(0, 0.1), 10)
    settle_paces(table)
    for others in (1.0, 2.5, 4.0, 7.0, 13.0, 20.0):
        assert pace_s(table, others) == pytest.approx(engine(others), rel=0.1)


def test_the_first_token_sets_the_scale_and_the_guess_keeps_its_shape() -> None:
    table = new_company()
    learn(table, 4, 0.03, 1)
    settle_paces(table)
    assert pace_s(table, 4) == pytest.approx(0.03, rel=0.01)
    assert table[SEEN_S] / table[SEEN_S, 0] == pytest.approx(new_company()[SEEN_S] / new_company()[SEEN_S, 0])


FLAT = st.lists(st.tuples(st.integers(0, 2000), st.integers(100, 5000)), min_size=1)


@given(st.floats(1e-4, 1.0), FLAT)
@example(1.0, [(512, 100), (2, 100), (362, 100)])
@example(1.0, [(364, 375), (512, 100)])
def test_engines_that_always_take_the_same_are_known_after_as_much_as_is_remembered(
    pace: float, deeds: list[tuple[int, int]]
) -> None:
    table = new_company()
    learn(table, 1, pace, 1)
    for active, tokens in deeds:
        for _ in range(ceil(MEMORY_TOKENS / tokens)):
            times = learn(table, active, pace, tokens)
        assert times == pytest.approx(1, rel=0.25)
    assert (table[SEEN_S] > 0).all() and np.isfinite(table[SEEN_S]).all()


@given(st.floats(1e-4, 1.0), st.lists(st.integers(1, 2000), min_size=1), st.integers(1, 5000))
def test_a_guess_between_two_that_were_seen_lies_between_them(
    pace: float, seen: list[int], tokens: int
) -> None:
    """Whatever order they came in: an engine that always takes the same is not guessed to be slow there."""
    table = new_company()
    learn(table, 1, pace, 1)
    for active in seen:
        learn(table, active, pace, tokens)
        known = np.flatnonzero(table[TOKENS])
        for low, high in pairwise(known):
            ends = table[SEEN_S, [low, high]]
            between = table[SEEN_S, low : high + 1]
            assert (between >= ends.min()).all() and (between <= ends.max()).all()


@given(DEEDS)
def test_one_more_never_costs_less_than_the_one_before_whatever_was_seen(
    deeds: list[tuple[int, float, int]],
) -> None:
    table = new_company()
    for active, pace, tokens in deeds:
        learn(table, active, pace, tokens)
    seen = table[SEEN_S].copy()
    settle_paces(table)
    assert (table[SEEN_S] == seen).all()
    assert (table[PACE_S] > 0).all() and np.isfinite(table[PACE_S]).all()
    found = slopes(table)
    assert (found >= 0).all() and (np.diff(found) >= -1e-9 * (1 + found[:-1])).all()


def test_what_bends_the_right_way_is_left_as_it_was_seen() -> None:
    table = new_company()
    table[TOKENS] = 1000.0
    table[SEEN_S] = 0.01 + 1e-6 * LEVELS**2
    settle_paces(table)
    assert table[PACE_S] == pytest.approx(table[SEEN_S], rel=1e-6)


def test_a_step_that_is_chance_holds_nobody_back() -> None:
    """As many beyond it as may be were free of charge: all would go where most are."""
    table = new_company()
    table[TOKENS] = 1000.0
    table[SEEN_S] = np.where(LEVELS > 20, 0.013, 0.01)
    settle_paces(table)
    others = np.arange(1, 200)
    paces = np.array([pace_s(table, float(n)) for n in range(1, 202)])
    total = paces[others] + others * np.diff(paces)[others - 1]
    assert (np.diff(total) >= -1e-9).all()


@given(st.floats(0, 2 * MOST))
def test_between_levels_the_pace_lies_on_their_line(others: float) -> None:
    table = new_company()
    settle_paces(table)
    within = min(max(others, 1.0), float(MOST))
    if others <= MOST:
        assert pace_s(table, others) == pytest.approx(np.interp(within, LEVELS, table[PACE_S]))
    else:
        assert pace_s(table, others) >= table[PACE_S, COUNT - 1]
