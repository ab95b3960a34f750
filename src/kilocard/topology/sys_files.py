"""Small files of /sys: a container may lack any of them, and then the value is unknown."""

from __future__ import annotations

from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.topology.cores import parse_cores


def read_text(path: Path) -> str | None:
    """What a file says, or None."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    """A whole number of 0 or more, or None: the kernel writes -1 for unknown."""
    return whole_number(read_text(path))


def whole_number(text: str | None) -> int | None:
    """What a text says where it is a number of 0 or more, of 15 digits at the most; else None."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None


def read_cores(path: Path) -> tuple[int, ...] | None:
    """A list of cores, or None."""
    try:
        return parse_cores(text) if (text := read_text(path)) is not None else None
    except KilocardError:
        return None


def folders(path: Path) -> list[Path]:
    """What lies in a folder, by name; nothing where there is none."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []
