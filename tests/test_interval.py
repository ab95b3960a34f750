"""Intervals hold as often as they say."""

from __future__ import annotations

from math import isinf

import numpy as np
import pytest

from kilocard.errors import KilocardError
from kilocard.stats.interval import mean_interval, next_interval


def test_they_hold_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    draws = rng.normal(5, 2, (2000, 9))
    means = [mean_interval(row[:8].tolist()).holds(5) for row in draws]
    nexts = [next_interval(row[:8].tolist()).holds(float(row[8])) for row in draws]
    assert np.mean(means) == pytest.approx(0.95, abs=0.015)
    assert np.mean(nexts) == pytest.approx(0.95, abs=0.015)


def test_students_t() -> None:
    found = mean_interval([1.0, 2.0, 3.0])
    assert (found.low, found.high) == pytest.approx((2 - 4.30265 / 3**0.5, 2 + 4.30265 / 3**0.5), rel=1e-4)


def test_one_value_says_nothing_and_none_is_refused() -> None:
    assert isinf(mean_interval([1.0]).high)
    with pytest.raises(KilocardError, match="at least one"):
        mean_interval([])
    with pytest.raises(KilocardError, match="between 0 and 1"):
        next_interval([1.0, 2.0], share=1)
