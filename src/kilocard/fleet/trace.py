"""Traces of what was asked of a service: published ones, and runs of this book."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kilocard.errors import KilocardError
from kilocard.record import Run
from kilocard.specs.demand import MOST_TOKENS

HASHED_TOKENS = 512
"""Tokens that one id of a trace with `hash_ids` stands for."""

FORMS = (
    "a .csv with TIMESTAMP, ContextTokens and GeneratedTokens; a .jsonl with timestamp (ms), input_length, "
    "output_length and hash_ids; or a .parquet that `kilocard bench --out` wrote"
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """Requests as they were made; `hash_ids` name each prompt's blocks of 512 tokens, where known."""

    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    hash_ids: tuple[tuple[int, ...], ...] = ()


def read_trace(path: str) -> Recorded:
    """The requests of a trace, the first of which arrives at 0."""
    readers: dict[str, Callable[[Path], Recorded]] = {
        ".csv": _read_csv,
        ".jsonl": _read_jsonl,
        ".parquet": _read_run,
    }
    place = Path(path).expanduser()
    if place.suffix not in readers:
        raise KilocardError(f"{path} is no trace: give {FORMS}")
    try:
        recorded = readers[place.suffix](place)
    except (OSError, LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise KilocardError(f"cannot read the trace {path}: {reason}; give {FORMS}") from error
    _check(path, recorded)
    return recorded


def _read_csv(place: Path) -> Recorded:
    table = pd.read_csv(place, usecols=["TIMESTAMP", "ContextTokens", "GeneratedTokens"])
    at = pd.to_datetime(table["TIMESTAMP"], utc=True, format="ISO8601")
    seconds = np.asarray((at - at.min()).dt.total_seconds(), np.float64)
    prompt, output = _tokens(table["ContextTokens"]), _tokens(table["GeneratedTokens"])
    return Recorded(seconds, prompt, output)


def _read_jsonl(place: Path) -> Recorded:
    with place.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    at_ms = np.array([row["timestamp"] for row in rows], np.float64)
    at_s: NDArray[np.float64] = (at_ms - at_ms.min(initial=np.inf)) / 1000
    return Recorded(
        at_s,
        _tokens([row["input_length"] for row in rows]),
        _tokens([row["output_length"] for row in rows]),
        tuple(tuple(int(block) for block in row.get("hash_ids", ())) for row in rows),
    )


def _read_run(place: Path) -> Recorded:
    """A run's requests, also those that failed: they were asked."""
    requests = Run.read(place).requests
    at_s = requests["scheduled_s"].fillna(requests["sent_s"]).to_numpy(float)
    output = requests["output_tokens"].where(requests["output_tokens"] > 0, requests["max_tokens"])
    return Recorded(at_s - at_s.min(initial=np.inf), _tokens(requests["prompt_tokens"]), _tokens(output))


def _tokens(column: Any) -> NDArray[np.int64]:
    """Whole numbers; an answer that was counted as nothing still took one step."""
    counts = pd.to_numeric(pd.Series(column)).to_numpy(dtype=float, na_value=np.nan)
    if not ((counts >= 0) & (counts <= MOST_TOKENS) & (counts == np.rint(counts))).all():
        raise ValueError(f"a number of tokens is missing, or is none of 0 to {MOST_TOKENS:,}")
    return np.maximum(counts, 1).astype(np.int64)


def _check(path: str, recorded: Recorded) -> None:
    if not len(recorded.arrival_s):
        raise KilocardError(f"the trace {path} holds no request: give {FORMS}")
    if not np.isfinite(recorded.arrival_s).all():
        raise KilocardError(f"a request of the trace {path} has no time: give {FORMS}")
