"""Text files that a user names: read up to what a person would write, and written whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from kilocard.errors import KilocardError
from kilocard.facts.files import real_place

MOST_CHARACTERS = 2_000_000


def read_short(path: Path | str) -> str:
    """The text at a path; a device that never ends is left after so many characters."""
    with Path(path).expanduser().open(encoding="utf-8") as file:
        text = file.read(MOST_CHARACTERS + 1)
    if len(text) > MOST_CHARACTERS:
        raise KilocardError(f"it is longer than {MOST_CHARACTERS:,} characters")
    return text


def write_whole(path: Path | str, text: str) -> None:
    """Write beside the place, then replace what is there; missing folders are made."""
    _put(path, text)


def require_writable(path: Path | str) -> Path:
    """The place that a path leads to, its folders made; refused where nothing can be written."""
    return _put(path, None)


def _put(path: Path | str, text: str | None) -> Path:
    try:
        place = real_place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(f".kilocard-{uuid4().hex}.part")
        try:
            partial.write_text(text or "", encoding="utf-8")
            if text is not None:
                partial.replace(place)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise KilocardError(f"cannot write {path}: {reason}; name another --out") from error
    return place
