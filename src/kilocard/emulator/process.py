"""Emulated engines in a process of their own: from a notebook, a test or a benchmark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

from kilocard.children import end, first_word
from kilocard.errors import KilocardError
from kilocard.specs import Case

STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Emulated:
    """Running engines. `about` is what `kilocard emulate --json` prints."""

    about: dict[str, Any]
    process: subprocess.Popen[str]

    @property
    def urls(self) -> list[str]:
        """One an engine."""
        return list(self.about["urls"])

    @property
    def url(self) -> str:
        """The first engine's."""
        return self.urls[0]

    @property
    def model(self) -> str:
        """The name that requests use."""
        return str(self.about["model"])

    def fault(self, engine: int = 0, *, through: int | None = None, **changes: Any) -> None:
        """Change what an engine does wrong, like `fault(2, slow=4)`; ask `through` another's port where its
        own is closed."""
        host = self.urls[engine if through is None else through].removeprefix("http://")
        connection = HTTPConnection(host, timeout=10)
        try:
            content = json.dumps({"engine": engine, **changes})
            connection.request("POST", "/emulator/fault", content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise KilocardError(json.load(answer)["error"]["message"])
        except (ConnectionError, TimeoutError):
            if not changes.get("crash"):  # one that crashes answers no more
                raise
        finally:
            connection.close()


@contextmanager
def emulated(
    case: Case,
    *,
    port: int = 0,
    speed: float = 1.0,
    served_model_name: str | None = None,
    faults: Sequence[str] = (),
) -> Iterator[Emulated]:
    """Run the engines of a case in a process of their own, which ends with the block, or with this one."""
    options = {"port": port, "speed": speed, "served_model_name": served_model_name, "faults": list(faults)}
    asked = json.dumps({"case": case.model_dump(mode="json"), **options})
    process = subprocess.Popen(
        [sys.executable, "-m", "kilocard.emulator"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Emulated(_about(process, asked), process)
    finally:
        end(process, STOP_TIMEOUT_S)


def _about(process: subprocess.Popen[str], asked: str) -> dict[str, Any]:
    assert process.stdin
    with suppress(BrokenPipeError):
        process.stdin.write(asked + "\n")
        process.stdin.flush()
    return first_word(process, "the emulated engines")
