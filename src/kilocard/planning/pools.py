"""Pools of a number of kinds of requests: each at its usual need, and one buffer for peaks, which do not all
come at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kilocard.errors import KilocardError

USUAL = 0.9


@dataclass(frozen=True, slots=True)
class Pools:
    """Cards of each kind's own pool, of the buffer that all may use, and of the alternatives: `apart`, a pool
    of its own peak for each; `together`, one pool for all, which only a single model could be."""

    own: Mapping[str, int]
    buffer: int
    apart: int
    together: int

    @property
    def cards(self) -> int:
        """With the buffer."""
        return sum(self.own.values()) + self.buffer


def size_pools(
    needs: Mapping[str, ArrayLike], cards_each: Mapping[str, int] | None = None, usual: float = USUAL
) -> Pools:
    """From each kind's need over time, in replicas at the same moments: own pools as large as the need is in
    `usual` of the time, and a buffer for the worst sum of what is over, in whole replicas of `cards_each`."""
    if not needs:
        raise KilocardError("no needs: give at least one kind and its replicas over time")
    if not 0 < usual <= 1:
        raise KilocardError(f"own pools for {usual:g} of the time: give a share above 0, at most 1")
    series = {name: _whole(name, values) for name, values in needs.items()}
    if len({len(values) for values in series.values()}) != 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in series.items())
        raise KilocardError(f"needs at different moments ({lengths}): give as many values for each kind")
    each = {name: (cards_each or {}).get(name, 1) for name in series}
    own = {name: ceil(float(np.quantile(values, usual))) * each[name] for name, values in series.items()}
    cards = {name: values * each[name] for name, values in series.items()}
    over = sum(np.maximum(cards[name] - own[name], 0) for name in series)
    return Pools(
        own=own,
        buffer=int(np.max(over)),
        apart=int(sum(values.max() for values in cards.values())),
        together=int(np.max(sum(cards.values()))),
    )


def _whole(name: str, values: ArrayLike) -> NDArray[np.int64]:
    series = np.asarray(values, dtype=float)
    if series.ndim != 1 or not len(series) or not np.isfinite(series).all() or (series < 0).any():
        raise KilocardError(f"the needs of {name} are no row of numbers of 0 or more")
    return np.ceil(series - 1e-9).astype(np.int64)
