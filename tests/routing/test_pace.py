"""What a pool gets done is counted while it is waited for, and soon believed."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.routing.pace import Pace


def waited_for(pace: Pace, begin_s: float, seconds: float, per_s: float) -> float:
    """Somebody waits all the while; returns when that ends."""
    pace.saw(begin_s, waiting=3)
    count = int(seconds * per_s)
    for number in range(1, count + 1):
        pace.saw(begin_s + number / per_s, waiting=3, finished=1)
    return begin_s + count / per_s


@given(per_s=st.floats(0.5, 200), seconds=st.floats(30, 200), begin_s=st.floats(0, 1e6))
def test_a_steady_pace_is_found(per_s: float, seconds: float, begin_s: float) -> None:
    pace = Pace(memory_s=20)
    now_s = waited_for(pace, begin_s, seconds, per_s)
    assert per_s * 0.95 <= pace.per_s(now_s) <= per_s + 2 / pace.memory_s


@given(night_s=st.floats(1, 1e5), per_s=st.floats(0.001, 10))
def test_a_quiet_night_says_nothing_of_what_a_pool_can_do(night_s: float, per_s: float) -> None:
    pace = Pace()
    for number in range(min(100, int(night_s * per_s))):
        pace.saw(number / per_s, waiting=0, finished=1)
    assert pace.per_s(night_s) == inf


def test_a_pool_that_finishes_nothing_is_found_out() -> None:
    pace = Pace(memory_s=10)
    now_s = waited_for(pace, 0, 30, 20)
    assert pace.per_s(now_s + 60) < 0.2


@given(first=st.floats(1, 100), then=st.floats(1, 100))
def test_what_was_is_forgotten(first: float, then: float) -> None:
    pace = Pace(memory_s=5)
    now_s = waited_for(pace, waited_for(pace, 0, 30, first), 60, then)
    assert pace.per_s(now_s) == pytest.approx(then, rel=0.05, abs=1.6 / pace.memory_s)


def test_a_clock_that_steps_back_does_no_harm() -> None:
    pace = Pace()
    now_s = waited_for(pace, 1000, 60, 10)
    pace.saw(now_s - 500, waiting=2, finished=1)
    assert pace.per_s(now_s - 400) == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize("memory_s", [0.0, -1.0, inf, float("nan")])
def test_a_memory_that_cannot_be_is_refused(memory_s: float) -> None:
    with pytest.raises(KilocardError, match="give seconds above 0"):
        Pace(memory_s)
