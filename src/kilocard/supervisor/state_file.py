"""The state on disk: written where it has changed; a full disk costs what is written, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.supervisor.state import State, write_state


class StateFile:
    """What could not be written is tried again at each look, and what somebody else did to it is undone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: State | None = None
        self._stamp: tuple[int, ...] = ()
        self._told = ""

    def keep(self, state: State) -> str:
        """Write it; the fault, told once, where it cannot be."""
        now = replace(
            state,
            held={name: replace(held) for name, held in state.held.items()},
            changes=dict(state.changes),
            recipes=dict(state.recipes),
        )
        if now == self._written and self._stamp == self._look():
            return ""
        try:
            write_state(self._path, now)
        except KilocardError as error:
            fault, self._told = "" if str(error) == self._told else str(error), str(error)
            return fault
        self._written, self._stamp, self._told = now, self._look(), ""
        return ""

    def _look(self) -> tuple[int, ...]:
        try:
            about = self._path.stat()
        except OSError:
            return ()
        return about.st_ino, about.st_size, about.st_mtime_ns
