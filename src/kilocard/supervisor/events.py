"""What a supervisor did and when: a JSON line each, and a sentence for whoever watches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_BYTES = 64 * 2**20


class Events:
    """A full disk costs lines, and nothing else; it is said once."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path, self._say = path, say
        self._is_deaf = False

    def note(self, event: str, **about: Any) -> None:
        """One thing that was done or seen."""
        known = {name: value for name, value in about.items() if value not in ("", None)}
        row = {"unix_s": time.time(), "t_s": time.monotonic(), "event": event, **known}
        try:
            if self._path.exists() and self._path.stat().st_size > MOST_BYTES:
                self._path.replace(self._path.with_suffix(".old.jsonl"))
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            self._is_deaf = False
        except OSError as error:
            if not self._is_deaf:
                self._say(f"{self._path} cannot be written, and events are lost: {error.strerror or error}")
            self._is_deaf = True
        self._say(sentence(event, known))


def sentence(event: str, about: dict[str, Any]) -> str:
    """For a person."""
    who = about.get("slot") or about.get("pool") or ""
    reason = f": {about['reason']}" if about.get("reason") else ""
    deaths = f" ({about['deaths']} deaths of late)" if about.get("deaths") else ""
    return f"{who} {event}".strip() + deaths + reason
