"""Latencies of a request table, and their percentiles with their n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROWS_BEYOND = 5
"""A percentile with fewer rows beyond it is one request's luck, and is not shown."""

SHARES = (0.50, 0.90, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds. A percentile is None where fewer than 5 of the `n` rows lie beyond it."""

    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    n: int


def percentile(values: Sequence[float] | Array, share: float) -> float | None:
    """The value that `share` of the rows do not exceed; None where fewer than 5 rows lie beyond it."""
    ordered = np.sort(np.asarray(values, dtype=float))
    if not _shown(len(ordered), share):
        return None
    return float(np.quantile(ordered, share))


def quantiles(values: Any) -> Quantiles:
    """Mean and percentiles of a column; nulls are left out."""
    kept = numbers(values)
    p50, p90, p95, p99 = (percentile(kept, share) for share in SHARES)
    return Quantiles(float(kept.mean()) if len(kept) else None, p50, p90, p95, p99, len(kept))


def ttft_s(requests: pd.DataFrame) -> pd.Series:
    """Time to the first token, from when the request was sent."""
    return requests["first_token_s"] - requests["sent_s"]


def ttft_from_scheduled_s(requests: pd.DataFrame) -> pd.Series:
    """The same from when the request was due: what an open loop's client waited is in it."""
    return requests["first_token_s"] - requests["scheduled_s"]


def tpot_s(requests: pd.DataFrame) -> pd.Series:
    """(last − first token) / (output tokens − 1); null for fewer than two tokens."""
    gaps = (requests["output_tokens"] - 1).where(requests["output_tokens"] > 1)
    return (requests["last_token_s"] - requests["first_token_s"]) / gaps


def e2e_s(requests: pd.DataFrame) -> pd.Series:
    """From sent to the last token."""
    return requests["last_token_s"] - requests["sent_s"]


def itl_quantiles(requests: pd.DataFrame) -> Quantiles:
    """Gap per token, over tokens and not over requests: a request's mean gap counts once a gap.

    So the mean is Σ(last − first) / Σ(tokens − 1), whatever the engine packs into a chunk. n counts requests.
    """
    tpot = tpot_s(requests).dropna().astype(float)
    if tpot.empty:
        return Quantiles(None, None, None, None, None, 0)
    weights = (requests.loc[tpot.index, "output_tokens"] - 1).to_numpy(dtype=float)
    values: Array = numbers(tpot)
    p50, p90, p95, p99 = (_weighted(values, weights, share) for share in SHARES)
    return Quantiles(float(np.average(values, weights=weights)), p50, p90, p95, p99, len(values))


def numbers(values: Any) -> Array:
    """A column as floats, its nulls left out."""
    return np.asarray(pd.Series(values).dropna().to_numpy(dtype=float), dtype=float)


def _shown(count: int, share: float) -> bool:
    return count * (1 - share) >= ROWS_BEYOND - 1e-9


def _weighted(values: Array, weights: Array, share: float) -> float | None:
    if not _shown(len(values), share):
        return None
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][int(np.searchsorted(reached, share))])
