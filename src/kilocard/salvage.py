"""A measured run is never lost: room is looked for before, and another place after, when the disk says no."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from kilocard.errors import KilocardError
from kilocard.facts.files import real_place
from kilocard.record import Run

FILE_BYTES = 64 * 1024
ROW_BYTES = 150
"""A run's file, generously: measured at about 20 KiB and 60 bytes a row."""

DISK, MEMORY = Path("/var/tmp"), Path("/dev/shm")
LONGEST_NAME = 48
"""Of the wanted name, in letters: file systems take 255 bytes, and a letter may be four."""

PLACE_FAULTS = (OSError, RuntimeError, ValueError)
"""What naming, asking for and writing a place may raise."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Where a run was written; `problem` says why not where it was wanted, and is empty when it was."""

    path: Path | None
    problem: str = ""


def require_room(path: Path, rows: int) -> None:
    """Refuse a place that cannot take a run of so many rows, before anything is measured."""
    trial = None
    try:
        place = real_place(path)
        trial = place.with_name(f".kilocard-{uuid4().hex}.room")
        place.parent.mkdir(parents=True, exist_ok=True)
        with trial.open("wb") as file:
            for _ in range(0, FILE_BYTES + ROW_BYTES * rows, FILE_BYTES):
                file.write(bytes(FILE_BYTES))
    except PLACE_FAULTS as error:
        reason = getattr(error, "strerror", None) or error
        raise KilocardError(
            f"--out {path} cannot be written ({reason}): name a .parquet with room"
        ) from error
    finally:
        if trial is not None:
            _remove(trial)


def save(run: Run, path: Path) -> Saved:
    """Write a run, or else write it to the first other folder that takes it."""
    problem = ""
    for place in (lambda: path, *_other_places(path.name)):
        try:
            return Saved(run.write(place()), problem)
        except (KilocardError, *PLACE_FAULTS) as error:
            problem = problem or str(error)
    return Saved(None, problem)


def _other_places(name: str) -> list[Callable[[], Path]]:
    """Asked for one by one, and only when needed: a folder may be gone, or nobody's home."""
    folders = (Path.cwd, lambda: Path(tempfile.gettempdir()), Path.home, lambda: DISK, lambda: MEMORY)
    return [partial(_unused, folder, f"kilocard-salvaged-{name[-LONGEST_NAME:]}") for folder in folders]


def _unused(folder: Callable[[], Path], name: str) -> Path:
    free = taken = folder() / name
    number = 1
    while os.path.lexists(free):
        number += 1
        free = taken.with_stem(f"{taken.stem}-{number}")
    return free


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
