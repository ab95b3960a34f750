"""Child processes that serve: their first word, which says where, and their end."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from typing import Any

from kilocard.errors import KilocardError


def first_word(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    """What a child says in its first line on stdout, as JSON; what it calls an error is raised as one."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        raise KilocardError(f"{name} did not start; the process said why on stderr")
    told: dict[str, Any] = json.loads(line)
    if "error" in told:
        process.wait()
        raise KilocardError(told["error"])
    return told


def end(process: subprocess.Popen[Any], within_s: float) -> None:
    """Ask a child to end, and kill it where it has not within so many seconds."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
