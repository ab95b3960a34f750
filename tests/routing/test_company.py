"""What company costs is learned for what it is, and between levels it is a straight line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.engine_model.compiled import plain
from kilocard.routing import company
from kilocard.routing.company import LEVELS, MOST, guessed_paces

learn, pace_s, nearest = map(plain, (company.learn, company.pace_s, company.nearest))

ENGINES: dict[str, Callable[[float], float]] = {
    "seats for four": lambda n: 0.005 * max(1.0, n / 4),
    "each slows all": lambda n: 0.01 + 0.0005 * n,
    "nobody slows anybody": lambda n: 0.02,
}


@pytest.mark.parametrize("name", ENGINES)
def test_each_kind_of_engine_is_learned_within_a_tenth(name: str) -> None:
    engine, random = ENGINES[name], np.random.default_rng(5)
    paces, seen = guessed_paces(), np.zeros(len(LEVELS))
    for _ in range(6000):
        active = int(random.integers(1, 24))
        learn(paces, seen, active, engine(active) * random.lognormal(0, 0.1), 10)
    for company_ in (1.0, 2.5, 4.0, 7.0, 13.0, 20.0):
        assert pace_s(paces, company_) == pytest.approx(engine(company_), rel=0.1)


def test_the_first_token_sets_the_scale_and_the_guess_keeps_its_shape() -> None:
    paces, seen = guessed_paces(), np.zeros(len(LEVELS))
    learn(paces, seen, 4, 0.03, 1)
    assert pace_s(paces, 4) == pytest.approx(0.03)
    assert paces / paces[0] == pytest.approx(guessed_paces() / guessed_paces()[0])


@given(st.lists(st.tuples(st.integers(0, 2000), st.floats(1e-4, 1.0), st.integers(1, 5000)), max_size=60))
def test_paces_stay_within_what_was_seen_at_their_levels(deeds: list[tuple[int, float, int]]) -> None:
    paces, seen = guessed_paces(), np.zeros(len(LEVELS))
    told: dict[int, list[float]] = {}
    for active, pace, tokens in deeds:
        learn(paces, seen, active, pace, tokens)
        told.setdefault(int(nearest(active)), []).append(pace)
    for level, given_s in told.items():
        assert min(given_s) * 0.999 <= paces[level] <= max(given_s) * 1.001
    assert (paces > 0).all() and np.isfinite(paces).all()


@given(st.floats(0, 2 * MOST))
def test_between_levels_the_pace_lies_between_theirs(company_: float) -> None:
    paces = guessed_paces()
    below = paces[max(0, int(np.searchsorted(LEVELS, company_, side="right")) - 1)]
    above = paces[min(len(LEVELS) - 1, int(np.searchsorted(LEVELS, company_, side="left")))]
    assert below - 1e-12 <= pace_s(paces, company_) <= above + 1e-12


@given(st.integers(0, 4 * MOST))
def test_the_nearest_level_is_the_nearest(active: int) -> None:
    within = min(max(active, 1), MOST)
    assert abs(LEVELS[nearest(active)] - within) == np.abs(LEVELS - within).min()
