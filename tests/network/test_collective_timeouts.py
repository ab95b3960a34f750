"""A time-out lies between 5 and 10 times the normal time, in whole seconds, and a wire's meaning follows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.network import DEFAULT_TIMEOUTS, Step, collective_timeout_s, meaning_of
from kilocard.network.meaning import nominal
from kilocard.parallel.collective import Wire


@given(st.floats(1e-9, 1e6))
def test_it_is_never_under_5_or_over_10_times_but_for_the_round_up(normal_s: float) -> None:
    soonest, latest = collective_timeout_s(normal_s)
    assert soonest >= max(1, 5 * normal_s)
    assert soonest < 5 * normal_s + 1 or soonest == 1
    assert latest >= max(soonest, 10 * normal_s)
    assert latest < 10 * normal_s + 1 or latest == 1


@given(st.floats(1e-9, 1e6), st.floats(1e-9, 1e6))
def test_a_slower_step_never_gets_less(one_s: float, other_s: float) -> None:
    less, more = sorted((one_s, other_s))
    assert collective_timeout_s(less) <= collective_timeout_s(more)


@pytest.mark.parametrize("normal_s", [0, -1, float("nan"), float("inf"), 1e308, 1e7])
def test_no_time_has_no_time_out(normal_s: float) -> None:
    with pytest.raises(KilocardError, match="normal time"):
        collective_timeout_s(normal_s)


def test_the_defaults_are_those_of_torch_and_vllm() -> None:
    assert [default.seconds for default in DEFAULT_TIMEOUTS] == [600, 1800, 300]
    assert all(default.source for default in DEFAULT_TIMEOUTS)


def test_a_ring_of_two_over_a_slow_wire_by_hand() -> None:
    """1 ms a start and 1 GB/s: 32 tokens x 8192 x 2 B are 524,288 B, twice a start and once the bytes."""
    meaning = meaning_of(Wire(1e-3, 1e9), Step(), 1e9)
    assert meaning.decode_allreduce_s == pytest.approx(2e-3 + 524_288e-9)
    assert meaning.decode_step_s == pytest.approx(160 * meaning.decode_allreduce_s)
    assert meaning.prefill_allreduce_s == pytest.approx(2e-3 + 33_554_432e-9)
    assert meaning.normal_s == meaning.prefill_allreduce_s
    assert meaning.timeout_s == (1, 1)
    assert meaning_of(Wire(1e-3, 1e9), Step(), 1e9, normal_step_s=2.0).timeout_s == (10, 20)


@given(st.integers(2, 64), st.integers(2, 64))
def test_more_ranks_wait_longer(some: int, other: int) -> None:
    wire = Wire(1e-5, 1e9)
    few, many = (meaning_of(wire, Step(ranks=ranks), 1e9) for ranks in sorted((some, other)))
    assert few.decode_step_s <= many.decode_step_s


@pytest.mark.parametrize(
    ("bytes_per_s", "like"),
    [
        (1.18e8, "1 Gb/s"),
        (1.18e9, "10 Gb/s"),
        (1.31e9, "10 Gb/s"),
        (2.9e9, "25 Gb/s"),
        (1.2e10, "100 Gb/s"),
        (1e6, "less than 1 Gb/s"),
        (1e12, "more than 400 Gb/s"),
    ],
)
def test_a_rate_is_like_a_wire_on_sale(bytes_per_s: float, like: str) -> None:
    assert nominal(bytes_per_s) == like


@pytest.mark.parametrize("bad", [{"ranks": 1}, {"hidden": 0}, {"layers": 10**8}, {"tokens": -1}])
def test_a_step_that_cannot_be_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(KilocardError, match=next(iter(bad))):
        Step(**bad)
