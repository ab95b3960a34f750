"""Traces of what was asked of a service: published ones, and runs of this book."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kilocard.errors import KilocardError
from kilocard.record import Run
from kilocard.specs.numbers import MOST_TOKENS

HASHED_TOKENS = 512
"""Tokens that one id of a trace with `hash_ids` stands for."""

DATE = r"\s*(\d{4}-\d\d-\d\d|\d{8}T)"
"""How a TIMESTAMP begins: a bare number is read as nanoseconds since 1970 otherwise."""

MOST_TOLD = 160
"""Characters of a reader's own complaint."""

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
    hash_ids: tuple[NDArray[np.int64], ...] = ()


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
        told = " ".join(f"{type(error).__name__}: {error}".split())
        reason = getattr(error, "strerror", None) or told[:MOST_TOLD]
        raise KilocardError(f"cannot read the trace {path}: {reason}; give {FORMS}") from error
    if not len(recorded.arrival_s):
        raise KilocardError(f"the trace {path} holds no request: give {FORMS}")
    return recorded


def _read_csv(place: Path) -> Recorded:
    columns = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]
    table = pd.read_csv(place, usecols=columns, dtype={"TIMESTAMP": "string"})
    dated = table["TIMESTAMP"].str.match(DATE).fillna(False).astype(bool)
    if not dated.all():
        raise ValueError(f"the TIMESTAMP {table['TIMESTAMP'][~dated].iloc[0]!r:.40} is no date and time")
    at = pd.to_datetime(table["TIMESTAMP"], utc=True, format="ISO8601")
    seconds = _since_first((at - at.min()).dt.total_seconds())
    prompt, output = _tokens(table["ContextTokens"]), _tokens(table["GeneratedTokens"])
    return Recorded(seconds, prompt, output)


def _read_jsonl(place: Path) -> Recorded:
    with place.open(encoding="utf-8") as lines:
        rows = [_row(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    return Recorded(
        _since_first([row["timestamp"] / 1000 for row in rows]),
        _tokens([row["input_length"] for row in rows]),
        _tokens([row["output_length"] for row in rows]),
        tuple(np.array(row.get("hash_ids", ()), np.int64) for row in rows),
    )


def _row(number: int, line: str) -> dict[str, Any]:
    """One request as JSON, whose values are what they should be."""
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError(f"line {number} is no object with keys")
    for name in ("timestamp", "input_length", "output_length"):
        if not _is(int | float, value := row.get(name)):
            raise ValueError(f"{name} in line {number} is {reprlib.repr(value)}, no number")
    ids = row.get("hash_ids", [])
    if not isinstance(ids, list) or not all(_is(int, one) and -(2**63) <= one < 2**63 for one in ids):
        raise ValueError(f"hash_ids in line {number} are {reprlib.repr(ids)}, no list of whole numbers")
    if len(ids) > max(1, -(-row["input_length"] // HASHED_TOKENS)):
        raise ValueError(
            f"line {number} has {len(ids)} hash_ids of {HASHED_TOKENS} tokens each, and a prompt of "
            f"{row['input_length']}"
        )
    return row


def _is(kind: Any, value: object) -> bool:
    """Whether a value is of a kind of number; true and false are none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _read_run(place: Path) -> Recorded:
    """A run's requests, also those that failed: they were asked."""
    requests = Run.read(place).requests
    at_s = _since_first(requests["scheduled_s"].fillna(requests["sent_s"]))
    output = requests["output_tokens"].where(requests["output_tokens"] > 0, requests["max_tokens"])
    return Recorded(at_s, _tokens(requests["prompt_tokens"]), _tokens(output))


def _since_first(column: Any) -> NDArray[np.float64]:
    """Seconds since the first request."""
    at_s = pd.to_numeric(pd.Series(column)).to_numpy(dtype=np.float64, na_value=np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        since_s: NDArray[np.float64] = at_s - at_s.min(initial=np.inf)
    if not (np.isfinite(at_s) & np.isfinite(since_s)).all():
        raise ValueError("a request has no time, or one beyond all numbers")
    return since_s


def _tokens(column: Any) -> NDArray[np.int64]:
    """Whole numbers; an answer that was counted as nothing still took one step."""
    counts = pd.to_numeric(pd.Series(column)).to_numpy(dtype=float, na_value=np.nan)
    if not ((counts >= 0) & (counts <= MOST_TOKENS) & (counts == np.rint(counts))).all():
        raise ValueError(f"a number of tokens is missing, or is none of 0 to {MOST_TOKENS:,}")
    return np.maximum(counts, 1).astype(np.int64)
