"""One thing that the doctor looks at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a check came out: `warn` costs something, `fail` must be mended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: what was found, and what to do."""

    name: str
    state: State
    found: str
    advice: str = ""

    def __str__(self) -> str:
        advice = f" -> {self.advice}" if self.advice else ""
        return f"{self.state.value:<5} {self.name:<17} {self.found}{advice}"


def judged(name: str, good: bool, found: str, advice: str, otherwise: State = State.WARN) -> Check:
    """A check that is OK, or comes out otherwise with its advice."""
    return Check(name, State.OK, found) if good else Check(name, otherwise, found, advice)
