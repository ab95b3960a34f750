"""A line is found again in times that lie on one, and never has a negative start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.network import fit_messages
from kilocard.parallel.collective import Wire, message_s

SIZES = [2.0**10 * 4**step for step in range(9)]
starts = st.floats(1e-6, 1e-2)
rates = st.floats(1e5, 1e11)


@given(starts, rates)
def test_a_line_is_found_again(start_s: float, bytes_per_s: float) -> None:
    fit = fit_messages(SIZES, message_s(SIZES, Wire(start_s, bytes_per_s)).tolist())
    assert fit.wire.bytes_per_s == pytest.approx(bytes_per_s, rel=1e-3)
    assert fit.wire.start_s == pytest.approx(start_s, rel=1e-3, abs=1e-3 * 1024 / bytes_per_s)
    assert fit.median_error < 1e-3


@given(starts, rates, st.lists(st.floats(0.8, 1.25), min_size=9, max_size=9))
def test_noise_moves_it_little(start_s: float, bytes_per_s: float, noise: list[float]) -> None:
    times = [
        time * by
        for time, by in zip(message_s(SIZES, Wire(start_s, bytes_per_s)).tolist(), noise, strict=True)
    ]
    fit = fit_messages(SIZES, times)
    assert fit.wire.start_s >= 0
    assert fit.median_error < 0.5


def test_no_start_is_under_zero() -> None:
    fit = fit_messages([1000, 10_000, 100_000], [0.5e-3, 1e-2, 1e-1])
    assert fit.wire.start_s == 0
    assert 1e6 < fit.wire.bytes_per_s < 2e6


def test_where_the_start_hides_the_bytes_the_rate_is_what_is_sure() -> None:
    fit = fit_messages([1024, 4096], [2.0, 1.0])
    assert fit.wire == Wire(1.0, 2048)


@pytest.mark.parametrize(
    ("sizes", "times", "said"),
    [
        ([1024], [1.0], "2 sizes or more"),
        ([1024, 1024], [1.0, 2.0], "2 sizes or more"),
        ([1024, 4096], [1.0], "2 sizes or more"),
        ([1024, 4096], [0.0, 1.0], "sizes and times are over 0"),
        ([1024, 4096], [1.0, float("nan")], "sizes and times are over 0"),
    ],
)
def test_what_is_no_line_is_refused(sizes: list[float], times: list[float], said: str) -> None:
    with pytest.raises(KilocardError, match=said):
        fit_messages(sizes, times)
