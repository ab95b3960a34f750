"""How long requests wait for a seat, on paper: from the load, and the spread of arrivals and of costs."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kilocard.errors import KilocardError


def mean_wait_s(seats: int, load: float, arrivals_cv: float, costs_cv: float, cost_s: float) -> float:
    """Mean wait of a line before `seats`, in seconds, where a request holds one for `cost_s` on average.

    (c_a² + c_s²) / 2 × ρ^(√(2 (s + 1)) − 1) / (s (1 − ρ)) × S: Sakasegawa (Annals of the Institute of
    Statistical Mathematics 29, 1977), who generalises Kingman's and Pollaczek and Khinchine's one seat, for
    which it is exact where arrivals are random.
    """
    if not (seats >= 1 and 0 <= load < 1):
        raise KilocardError(
            f"{seats} seats at a load of {load:g}: give at least one seat, and a load under 1: above it the "
            "line only grows"
        )
    spread = (arrivals_cv**2 + costs_cv**2) / 2
    return float(spread * load ** (sqrt(2 * (seats + 1)) - 1) / (seats * (1 - load)) * cost_s)


def held_s(requests: pd.DataFrame, overhead_s: float) -> pd.Series:
    """How long each request of a simulated run held its seat: from when it was let in to its last token;
    `overhead_s` of its time it was outside of the engine's steps."""
    return requests["last_token_s"] - requests["sent_s"] - requests["queue_s"] - overhead_s


def spread(values: pd.Series | NDArray[np.float64]) -> float:
    """Coefficient of variation: standard deviation ÷ mean."""
    column = np.asarray(values, float)
    return float(column.std() / column.mean())


def still_to_come(tokens: NDArray[np.int64], written: int) -> float:
    """Tokens that an answer of which so many are written has still to come, on average."""
    longer = tokens[tokens > written]
    if not len(longer):
        raise KilocardError(f"no answer has more than {written:,} tokens: ask for fewer")
    return float((longer - written).mean())
