"""Where a notebook keeps what it measured, and where it finds what others did."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from kilocard import __version__
from kilocard.box import describe_box
from kilocard.errors import KilocardError, near_match
from kilocard.launch import Engine
from kilocard.record import Kind, Run, Stamp

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = ROOT / "data" / "published"


def measured_folder() -> Path:
    """`data/measured`, or where `KILOCARD_MEASURED` says: a build keeps its runs out of the checkout."""
    return Path(os.environ.get("KILOCARD_MEASURED") or ROOT / "data" / "measured")


def engine_stamp(engine: Engine) -> Stamp:
    """The stamp of what a cell saw on this engine outside a run."""
    fields = engine.stamp_fields()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Stamp(kind=engine.kind, box=describe_box(), started_at=now, **fields)


def box_stamp() -> Stamp:
    """The stamp of what a cell measured on this box without an engine."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Stamp(
        kind=Kind.MEASURED, model="none", engine="", engine_version="", card="cpu", box=describe_box(),
        started_at=now, kilocard_version=__version__,
    )  # fmt: skip


def keep(run: Run, name: str) -> Path:
    """Keep a run under its box's name, for the chapters and the boxes that come after."""
    return run.write(measured_folder() / run.stamp.box["name"] / f"{name}.parquet")


def kept(name: str, box: str | None = None) -> Run:
    """The run of this name: this build's, else the book's record; this box's, else any other's."""
    boxes = (box,) if box else (describe_box()["name"], "*")
    return Run.read(kept_file(f"{name}.parquet", boxes))


def place_of(run: Run, name: str) -> Path:
    """Where a file about that run is kept: beside it, under its box's name."""
    folder = measured_folder() / str(run.stamp.box["name"])
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def kept_file(name: str, boxes: Sequence[str] = ("*",)) -> Path:
    """The file of this name: this build's, else the book's record; of the first box that has one."""
    for folder in dict.fromkeys((measured_folder(), ROOT / "data" / "measured")):
        for of_box in boxes:
            if found := sorted(folder.glob(f"{of_box}/{name}")):
                return found[0]
    raise KilocardError(f"no measured {name!r}: run the chapter that measures it first (make book runs all)")


@dataclass(frozen=True, slots=True)
class PublishedSweep:
    """A sweep that somebody else published, and where."""

    table: pd.DataFrame
    source: str


SWEEPS = {
    "qwen27b_int4_k100ai": "article A, section 5.1",
    "llama31_8b_h100_vllm021": "InferenceBench documentation, 2026-05-16",
    "llama31_8b_h100_nim18": "NVIDIA NIM benchmarking guide 1.0.0",
}


def published_sweep(name: str) -> PublishedSweep:
    """A published sweep by name; its columns are concurrency, tpot_ms, output_tokens_per_s, ttft_ms."""
    if name not in SWEEPS:
        raise KilocardError(f"no published sweep {name!r}: {near_match(name, SWEEPS)}")
    return PublishedSweep(pd.read_csv(PUBLISHED / f"sweep_{name}.csv"), SWEEPS[name])
