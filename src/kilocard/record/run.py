"""A run: the request table, its samples and its stamp, and the file that holds all three."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, TypeAdapter

from kilocard.errors import KilocardError
from kilocard.facts.files import real_place
from kilocard.record.plain import to_json
from kilocard.record.stamp import Stamp, stamp_from
from kilocard.record.table import REQUEST_COLUMNS, SAMPLE_COLUMNS, Status, as_typed, require_finite, typed

NAME_A_RUN = "name a .parquet that `kilocard bench --out` wrote"

_FAULTS = (
    *(LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError),
    *(OSError, MemoryError, pa.ArrowException),
)
"""What a file, a disk or a value of an unforeseen shape may raise."""

_CHUNK_TIMES = TypeAdapter(dict[str, list[Annotated[float, Field(allow_inf_nan=False)]]])


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
        """Write Parquet (samples in the same file's metadata), atomically; a link is written through."""
        try:
            named, place = Path(path).expanduser(), real_place(path)
            _write_whole(self._table(), place)
        except _FAULTS as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise KilocardError(f"cannot write {path}: {reason}; name another --out") from error
        return named

    def _table(self) -> pa.Table:
        table = pa.Table.from_pandas(self.requests, preserve_index=False)
        samples = json.loads(self.samples.to_json(orient="records"))
        record = {"stamp": asdict(self.stamp), "samples": samples, "chunk_times_s": self.chunk_times_s}
        told = {b"kilocard": to_json(record, sort_keys=True).encode()}
        return table.replace_schema_metadata({**(table.schema.metadata or {}), **told})

    @classmethod
    def read(cls, path: Path | str) -> Run:
        """Read a run that `write` wrote."""
        try:
            path = Path(path).expanduser()
            table = pq.read_table(path)
            record = json.loads(table.schema.metadata[b"kilocard"])
            return cls(
                require_finite(as_typed(table.to_pandas(), REQUEST_COLUMNS)),
                stamp_from(record["stamp"]),
                require_finite(typed(record["samples"], SAMPLE_COLUMNS)),
                _CHUNK_TIMES.validate_python(record["chunk_times_s"]),
            )
        except FileNotFoundError as error:
            raise KilocardError(f"no run at {path}: {NAME_A_RUN}") from error
        except _FAULTS as error:
            raise KilocardError(f"{path} is not a run: {NAME_A_RUN}") from error


def _write_whole(table: pa.Table, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f".kilocard-{uuid4().hex}.part")
    try:
        pq.write_table(table, partial, compression="zstd")
        partial.replace(place)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
