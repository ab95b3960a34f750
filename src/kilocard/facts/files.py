"""Files that a reader names: found, small enough, and read as text, or refused in one line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kilocard.errors import KilocardError

MOST_BYTES = 32 * 2**20


def user_path(name: str | Path) -> Path:
    """The path of that name, with `~` expanded."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise KilocardError(f"{name}: ~ has no home folder here; write the whole path") from error


def real_place(path: Path | str) -> Path:
    """Where a path leads, `~` and links followed; OSError where something lies there that is no file."""
    place = Path(os.path.realpath(Path(path).expanduser()))
    if place.exists() and not place.is_file():
        raise OSError(f"{place} is not a regular file")
    return place


def is_there(path: Path) -> bool:
    """Whether something is at this path; a name that no file can have is nowhere."""
    try:
        return path.exists()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether a folder is at this path."""
    try:
        return path.is_dir()
    except OSError:
        return False


def read_text(path: Path) -> str:
    """The text of a regular file; a device or pipe, which may never end, is refused unread.

    OSError and ValueError (no UTF-8, too large) say what is wrong with it.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is no regular file")
    if status.st_size > MOST_BYTES:
        raise ValueError(f"it has {status.st_size:,} bytes, more than {MOST_BYTES:,}")
    with path.open("rb") as file:
        return file.read(MOST_BYTES).decode("utf-8")
