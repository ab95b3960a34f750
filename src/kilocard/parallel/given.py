"""What the arithmetic of this room is given, refused where it is no count or no amount."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kilocard.errors import KilocardError

Floats = NDArray[np.float64]
MOST = 10**9


def count(value: Any, refused: str) -> int:
    """A whole number from 1 to a milliard; `refused` says what it counts and what may be given."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 1 <= value <= MOST or value != int(value):
        raise KilocardError(f"{_short(value)} {refused}")
    return int(value)


def amounts(values: ArrayLike, unit: str, least: float = 0.0) -> Floats:
    """Finite numbers, none of them under `least`."""
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        raise KilocardError(f"{_short(values)} {unit}: give numbers of {least:g} or more") from error
    right = (found >= least) & (found < np.inf)
    if not right.all():
        raise KilocardError(f"{found[~right].flat[0]:g} {unit}: give {least:g} or more")
    return found


def _short(value: object) -> str:
    return " ".join(repr(value)[:60].split())
