"""The pile-up of a fleet holds what the requests held."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.notebook.figures.fleet import in_flight

REPLICAS = ["a", "b", "c"]
seconds = st.floats(0, 10)
requests = st.lists(st.tuples(seconds, seconds, st.sampled_from([*REPLICAS, None])), max_size=20)


@given(requests, st.integers(1, 30))
def test_no_second_of_a_request_is_lost(rows: list[tuple[float, float, str | None]], bins: int) -> None:
    table = pd.DataFrame(
        {
            "sent_s": [min(a, b) for a, b, _ in rows],
            "last_token_s": [max(a, b) for a, b, _ in rows],
            "replica": pd.array([name for *_, name in rows], dtype="string"),
        }
    )
    grid = in_flight(table, REPLICAS, np.linspace(0, 10, bins + 1))
    for row, name in enumerate(REPLICAS):
        held_s = sum(abs(a - b) for a, b, at in rows if at == name)
        assert grid[row].sum() * 10 / bins == pytest.approx(held_s, abs=1e-6)
    assert (grid >= 0).all()


def test_a_request_without_an_answer_is_not_drawn() -> None:
    table = pd.DataFrame({"sent_s": [1.0], "last_token_s": [float("nan")], "replica": ["a"]})
    assert not in_flight(table, REPLICAS, np.linspace(0, 10, 11)).any()
