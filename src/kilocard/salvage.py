"""A measured run is never lost: room is looked for before, and another place after, when the disk says no."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.record import Run

FILE_BYTES = 64 * 1024
ROW_BYTES = 150
"""A run's file, generously: measured at about 20 KiB and 60 bytes a row."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Where a run was written; `problem` says why not where it was wanted, and is empty when it was."""

    path: Path | None
    problem: str = ""


def require_room(path: Path, rows: int) -> None:
    """Refuse a place that cannot take a run of so many rows, before anything is measured."""
    if path.exists() and not path.is_file():
        raise KilocardError(f"--out {path} is not a regular file: name a .parquet to write")
    trial = path.with_name(f".{path.name}.{os.getpid()}.room")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with trial.open("wb") as file:
            file.write(bytes(FILE_BYTES + ROW_BYTES * rows))
    except OSError as error:
        raise KilocardError(
            f"--out {path} cannot be written ({error.strerror or error}): name a folder with room"
        ) from error
    finally:
        _remove(trial)


def save(run: Run, path: Path) -> Saved:
    """Write a run, or else write it to the first other folder that takes it."""
    problem = ""
    for place in (path, *_other_places(path.name)):
        try:
            return Saved(run.write(place), problem)
        except KilocardError as error:
            problem = problem or str(error)
    return Saved(None, problem)


def _other_places(name: str) -> Iterator[Path]:
    for folder in (Path.cwd(), Path(tempfile.gettempdir()), Path.home(), Path("/var/tmp"), Path("/dev/shm")):
        yield folder / _unused(folder, f"kilocard-salvaged-{name}")


def _unused(folder: Path, name: str) -> str:
    taken, number = Path(name), 1
    while (folder / taken).exists():
        number += 1
        taken = Path(f"{Path(name).stem}-{number}{Path(name).suffix}")
    return str(taken)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
