"""The request table: every run, however made, is one `Run` that statistics and figures read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kilocard.errors import KilocardError

NAME_A_RUN = "name a .parquet that `kilocard bench --out` wrote"


class Kind(StrEnum):
    """How a number came to be; no kind may pass for another."""

    MEASURED = "measured"
    EMULATED = "emulated"
    SIMULATED = "simulated"
    DERIVED = "derived"
    PUBLISHED = "published"


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


_NO_RUN = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, OSError, pa.ArrowException)
"""What reading somebody else's file may raise, wherever it differs from ours."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Where a run comes from: without it, no number is shown."""

    kind: Kind
    model: str
    engine: str
    engine_version: str
    card: str
    box: Mapping[str, Any]
    started_at: str
    """ISO 8601, UTC."""
    layout: str = "TP 1"
    settings: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    """`stages` maps a stage number (as a string) to its level, e.g. {"concurrency": 8}."""
    seed: int | None = None
    source: str = ""
    kilocard_version: str = ""
    client: Mapping[str, Any] = field(default_factory=dict)
    """The load generator's own health: `loop_lag_p99_s`, `late_sends`, `interrupted`."""
    valid: bool = True
    invalid_reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", Kind(self.kind))
        if self.kind is Kind.PUBLISHED and not self.source:
            raise KilocardError("a published run needs its source: set Stamp.source to the publication")

    @property
    def caption(self) -> str:
        """One line for the corner of a figure: kind, box, engine and version, date."""
        parts = [self.kind.value, self.box.get("name", ""), f"{self.engine} {self.engine_version}".strip()]
        return " · ".join([*filter(None, parts), self.started_at[:10]])


@dataclass(frozen=True, slots=True)
class Run:
    """A request table, its samples over time, and the stamp that says where both come from."""

    requests: pd.DataFrame
    stamp: Stamp
    samples: pd.DataFrame = field(default_factory=lambda: typed([], SAMPLE_COLUMNS))
    chunk_times_s: Mapping[str, list[float]] = field(default_factory=dict)
    """By request id, on demand: when each chunk arrived."""

    def __post_init__(self) -> None:
        missing = [name for name in REQUEST_COLUMNS if name not in self.requests.columns]
        if missing:
            raise KilocardError(f"a request table lacks the columns {', '.join(missing)}")

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[Mapping[str, Any]],
        stamp: Stamp,
        samples: Iterable[Mapping[str, Any]] = (),
        chunk_times_s: Mapping[str, list[float]] | None = None,
    ) -> Run:
        """A run from plain dicts; a column that a row does not name is null."""
        return cls(typed(rows, REQUEST_COLUMNS), stamp, typed(samples, SAMPLE_COLUMNS), chunk_times_s or {})

    @property
    def ok(self) -> pd.DataFrame:
        """The requests that ended well."""
        return self.requests[self.requests["status"] == Status.OK]

    def stage(self, number: int) -> Run:
        """The part of the run that one level of a sweep or step of a ramp made."""
        return replace(self, requests=self.requests[self.requests["stage"] == number])

    @property
    def stages(self) -> list[int]:
        """The stage numbers present, in order."""
        return sorted(int(number) for number in self.requests["stage"].dropna().unique())

    def write(self, path: Path | str) -> Path:
        """Write Parquet (samples beside it in the same file's metadata), atomically."""
        path = Path(path)
        if path.exists() and not path.is_file():
            raise KilocardError(f"cannot write {path}: it is not a regular file; name another --out")
        table = pa.Table.from_pandas(self.requests, preserve_index=False)
        metadata = {**(table.schema.metadata or {}), b"kilocard": self._metadata()}
        table = table.replace_schema_metadata(metadata)
        partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, partial, compression="zstd")
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            reason = error.strerror or error
            raise KilocardError(f"cannot write {path}: {reason}; name another --out") from error
        return path

    def _metadata(self) -> bytes:
        samples = json.loads(self.samples.to_json(orient="records"))
        record = {"stamp": asdict(self.stamp), "samples": samples, "chunk_times_s": dict(self.chunk_times_s)}
        return json.dumps(record, sort_keys=True).encode()

    @classmethod
    def read(cls, path: Path | str) -> Run:
        """Read a run that `write` wrote."""
        path = Path(path)
        try:
            table = pq.read_table(path)
            record = json.loads(table.schema.metadata[b"kilocard"])
            return cls(
                _as_typed(table.to_pandas(), REQUEST_COLUMNS),
                stamp_from(record["stamp"]),
                typed(record["samples"], SAMPLE_COLUMNS),
                record["chunk_times_s"],
            )
        except FileNotFoundError as error:
            raise KilocardError(f"no run at {path}: {NAME_A_RUN}") from error
        except _NO_RUN as error:
            raise KilocardError(f"{path} is not a run: {NAME_A_RUN}") from error


def typed(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """A frame with exactly these nullable columns, whatever the rows leave out."""
    return _as_typed(pd.DataFrame(list(rows), columns=list(columns)), columns)


def _as_typed(frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    return frame[list(columns)].astype(dict(columns))


def stamp_from(record: Mapping[str, Any]) -> Stamp:
    """A stamp from its stored form; fields that a later version added are ignored."""
    known = {item.name for item in fields(Stamp)}
    return Stamp(**{name: value for name, value in record.items() if name in known})
