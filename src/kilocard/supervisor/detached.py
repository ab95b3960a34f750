"""A supervisor that goes on when whoever started it ends."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from kilocard.errors import KilocardError
from kilocard.specs.cluster import read_cluster
from kilocard.supervisor.home import home_of

LOOK_S = 0.2
ERROR = "kilocard: "


def start_detached(path: Path, *, is_emulated: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Start it in a session of its own; what it says once all is ready. `say` gets the lines of its log until
    then; where it ends before, its last word is the error."""
    log = home_of(read_cluster(path).name).log_of("supervisor")
    argv = [sys.executable, "-m", "kilocard", "up", str(path), "--json", "--no-view"]
    with log.open("ab") as trouble:  # another one may be at work, and write there
        begin = trouble.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            argv + (["--emulated"] if is_emulated else []),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=trouble,
            start_new_session=True,
        )
    assert process.stdout is not None
    told, last = _first_object(process.stdout, Log(log, begin), say)
    if told is None:
        process.wait()
        raise KilocardError(f"{last.removeprefix(ERROR) or 'it gave no reason'} (log: {log})")
    return told


def _first_object(
    stream: IO[bytes], log: Log, say: Callable[[str], None]
) -> tuple[dict[str, Any] | None, str]:
    """The JSON object at the begin of a stream, which goes over several lines, and the log's last line; an
    error is left to the caller to say."""
    text, last = b"", ""
    while True:
        readable = select.select([stream], [], [], LOOK_S)[0]
        piece = os.read(stream.fileno(), 2**16) if readable else b""
        for last in log.new_lines():
            if not last.startswith(ERROR):
                say(last)
        if not readable:
            continue
        if not piece:
            return None, last
        text += piece
        with suppress(ValueError):
            told: dict[str, Any] = json.loads(text)
            return told, last


class Log:
    """The whole lines that were added to a file from some place on."""

    def __init__(self, path: Path, begin: int) -> None:
        self.path, self._begin = path, begin

    def new_lines(self) -> list[str]:
        """Since the last call."""
        with self.path.open("rb") as file:
            file.seek(self._begin)
            whole = file.read().rpartition(b"\n")[0]
        if not whole:
            return []
        self._begin += len(whole) + 1
        return whole.decode(errors="replace").splitlines()
