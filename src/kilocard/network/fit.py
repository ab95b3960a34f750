"""A straight line through the times of messages, also where their start hides their bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kilocard.parallel.collective import Wire
from kilocard.parallel.fitted import Fitted, NoRateError, fit_wire


def fit_messages(sizes_bytes: Sequence[float], times_s: Sequence[float]) -> Fitted:
    """`fit_wire`; where larger messages took no longer, the rate that the largest is sure to have had."""
    try:
        return fit_wire(sizes_bytes, times_s)
    except NoRateError:
        sizes, times = np.asarray(sizes_bytes, dtype=float), np.asarray(times_s, dtype=float)
        line = Fitted(Wire(float(times.min()), float(sizes.max() / times.max())), ())
        return Fitted(line.wire, tuple((line.seconds(sizes) / times - 1).tolist()))
