"""The columns of a run's tables, and how a request may end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd


class Status(StrEnum):
    """How a request ended."""

    OK = "ok"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    ERROR = "error"
    CANCELLED = "cancelled"
    LOST = "lost"


REQUEST_COLUMNS: dict[str, str] = {
    "request_id": "string",
    "scheduled_s": "Float64",
    "sent_s": "Float64",
    "first_token_s": "Float64",
    "last_token_s": "Float64",
    "prompt_tokens": "Int64",
    "cached_tokens": "Int64",
    "output_tokens": "Int64",
    "max_tokens": "Int64",
    "chunks": "Int64",
    "max_gap_s": "Float64",
    "stage": "Int64",
    "priority": "string",
    "tenant": "string",
    "model": "string",
    "model_version": "string",
    "pool": "string",
    "gateway": "string",
    "replica": "string",
    "node": "string",
    "status": "string",
    "http_status": "Int64",
    "error": "string",
    "retries": "Int64",
    "queue_s": "Float64",
}
"""One row a request. Times are seconds from the run's start on one monotonic clock; missing is null."""

SAMPLE_COLUMNS: dict[str, str] = {
    "t_s": "Float64",
    "replica": "string",
    "running": "Int64",
    "waiting": "Int64",
    "kv_used_ratio": "Float64",
    "preemptions": "Int64",
    "state": "string",
    "weight": "Float64",
}
"""One row a replica and sample."""


def typed(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """A frame with exactly these nullable columns, whatever the rows leave out."""
    rows = list(rows)
    try:
        frame = pd.DataFrame(rows, columns=list(columns))
    except UnicodeEncodeError:
        frame = pd.DataFrame([_as_text_of_files(row) for row in rows], columns=list(columns))
    return as_typed(frame, columns)


def _as_text_of_files(row: Mapping[str, Any]) -> dict[str, Any]:
    """Lone surrogates, which no file takes, become question marks."""
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in row.items()
    }


def as_typed(frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """These columns of a frame in their types, ValueError where a value has no place in one."""
    return frame[list(columns)].astype(dict(columns))


def require_finite(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame whose numbers are numbers or null."""
    for name in frame.select_dtypes("Float64"):
        if np.isinf(frame[name].dropna().to_numpy(dtype=float)).any():
            raise ValueError(f"an infinite {name}")
    return frame
