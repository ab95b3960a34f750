"""A supervisor that goes on when whoever started it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kilocard.errors import KilocardError
from kilocard.specs.cluster import read_cluster
from kilocard.supervisor.home import home_of


def start_detached(path: Path, *, is_emulated: bool) -> dict[str, Any]:
    """Start it in a session of its own; what it says once all is ready. Where it ends before, its last word
    is the error."""
    home = home_of(read_cluster(path).name)
    log = home.log_of("supervisor")
    argv = [sys.executable, "-m", "kilocard", "up", str(path), "--json", "--no-view"]
    with log.open("ab") as trouble:  # another one may be at work, and write there
        process = subprocess.Popen(
            argv + (["--emulated"] if is_emulated else []),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=trouble,
            text=True,
            start_new_session=True,
        )
    assert process.stdout is not None
    told = _first_object(process.stdout)
    if told is None:
        process.wait()
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = lines[-1].removeprefix("kilocard: ") if lines else "it gave no reason"
        raise KilocardError(f"{reason} (log: {log})")
    return told


def _first_object(lines: Any) -> dict[str, Any] | None:
    """The JSON object at the begin of a stream, which goes over several lines."""
    text = ""
    for line in lines:
        text += line
        try:
            told: dict[str, Any] = json.loads(text)
            return told
        except ValueError:
            continue
    return None
