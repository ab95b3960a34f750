"""A wire read off times: a made-up one is found again, with noise and an outlier; nonsense is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.parallel import Fitted, Wire, fit_two_rates, fit_wire, message_s

SIZES = [float(2**power) for power in range(10, 27)]
wires = st.builds(Wire, st.floats(1e-6, 1e-3), st.floats(1e8, 1e11))
noise = st.lists(st.floats(-0.05, 0.05), min_size=len(SIZES), max_size=len(SIZES))


@given(wires)
def test_a_made_up_wire_is_found_again(wire: Wire) -> None:
    found = fit_wire(SIZES, message_s(SIZES, wire).tolist())
    assert found.median_error < 1e-6
    assert found.seconds(SIZES) == pytest.approx(message_s(SIZES, wire), rel=1e-6)


@given(wires, noise)
def test_noise_is_not_made_worse(wire: Wire, off: list[float]) -> None:
    true_s = message_s(SIZES, wire)
    found = fit_wire(SIZES, (true_s * (1 + np.asarray(off))).tolist())
    assert np.max(np.abs(found.seconds(SIZES) / true_s - 1)) < 0.08


@given(wires, st.integers(0, len(SIZES) - 1))
def test_one_disturbed_size_hardly_bends_the_line(wire: Wire, disturbed: int) -> None:
    true_s = message_s(SIZES, wire)
    seen_s = true_s.copy()
    seen_s[disturbed] *= 5
    found = fit_wire(SIZES, seen_s.tolist())
    assert found.median_error < 0.08


@given(wires, st.sampled_from(SIZES[3:-4]), st.floats(0.2, 5))
def test_two_rates_are_found_again(wire: Wire, knee: float, share: float) -> None:
    true_s = Fitted(wire, (), knee, share).seconds(SIZES)
    found = fit_two_rates(SIZES, true_s.tolist())
    assert found.seconds(SIZES) == pytest.approx(true_s, rel=1e-4)


@given(wires, noise)
def test_a_start_and_a_rate_are_never_negative(wire: Wire, off: list[float]) -> None:
    seen_s = (np.full(len(SIZES), wire.start_s) * (1 + np.asarray(off)) + np.asarray(SIZES)).tolist()
    for fit in (fit_wire, fit_two_rates):
        found = fit(SIZES, seen_s)
        assert found.wire.start_s >= 0 and found.wire.bytes_per_s > 0 and found.long_share > 0


def test_errors_say_fitted_against_measured() -> None:
    found = Fitted(Wire(1.0, 1.0), (0.1, -0.3, 0.2))
    assert (found.median_error, found.worst_error) == (0.2, 0.3)


@pytest.mark.parametrize(
    ("sizes", "times", "said"),
    [
        ([1024], [1.0], "2 sizes or more"),
        ([1024, 1024], [1.0, 2.0], "2 sizes or more"),
        ([1024, 2048], [1.0], "a time for each size"),
        ([1024, 2048], [1.0, 0.0], "a time of 0"),
        ([1024, -1], [1.0, 2.0], "a size of -1"),
        ([1024, 2048], [1.0, float("nan")], "a time of nan"),
        ([1024, 2048, 4096], [4.0, 2.0, 1.0], "took no longer"),
    ],
)
def test_what_is_no_line_is_refused(sizes: list[float], times: list[float], said: str) -> None:
    with pytest.raises(KilocardError, match=said):
        fit_wire(sizes, times)


def test_two_rates_want_more_sizes() -> None:
    with pytest.raises(KilocardError, match="6 sizes or more"):
        fit_two_rates([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
