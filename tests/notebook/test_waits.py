"""The wait on paper: exact where it should be, and never less for more load or more spread."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.notebook.waits import held_s, mean_wait_s, spread, still_to_come

seats = st.integers(1, 64)
loads = st.floats(0.01, 0.98)
spreads = st.floats(0.0, 5.0)


@given(loads)
def test_one_seat_waits_as_pollaczek_and_khinchine_say(load: float) -> None:
    assert mean_wait_s(1, load, 1, 1, 2.0) == pytest.approx(2.0 * load / (1 - load))
    assert mean_wait_s(1, load, 1, 0, 2.0) == pytest.approx(1.0 * load / (1 - load))


@given(seats, loads, spreads, spreads, st.floats(0.01, 100))
def test_more_load_or_spread_never_waits_less_and_more_seats_never_more(
    count: int, load: float, arrivals_cv: float, costs_cv: float, cost_s: float
) -> None:
    wait_s = mean_wait_s(count, load, arrivals_cv, costs_cv, cost_s)
    assert wait_s >= 0
    assert mean_wait_s(count, load + 0.01, arrivals_cv, costs_cv, cost_s) >= wait_s
    assert mean_wait_s(count, load, arrivals_cv, costs_cv + 1, cost_s) >= wait_s
    assert mean_wait_s(count + 1, load, arrivals_cv, costs_cv, cost_s) <= wait_s * (1 + 1e-9)


@pytest.mark.parametrize(("count", "load"), [(0, 0.5), (4, 1.0), (4, -0.1)])
def test_what_has_no_mean_wait_is_refused(count: int, load: float) -> None:
    with pytest.raises(KilocardError, match="seats at a load of"):
        mean_wait_s(count, load, 1, 1, 1)


def test_what_is_still_to_come_is_counted_over_those_that_are_longer() -> None:
    tokens = np.array([10, 20, 30, 100])
    assert still_to_come(tokens, 0) == 40
    assert still_to_come(tokens, 20) == 45
    with pytest.raises(KilocardError, match="no answer has more than 100"):
        still_to_come(tokens, 100)


def test_a_seat_is_held_for_what_is_neither_wait_nor_overhead() -> None:
    table = pd.DataFrame({"sent_s": [1.0, 2.0], "queue_s": [0.5, 0.0], "last_token_s": [3.0, 4.0]})
    assert held_s(table, 0.25).tolist() == [1.25, 1.75]
    assert spread(held_s(table, 0.25)) == pytest.approx(0.25 / 1.5)
