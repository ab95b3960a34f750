"""Why a program ended: what it said, else how."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch_fakes import eventually

from kilocard.launch.keep import Kept, Program, exit_code, keep, kept_under
from kilocard.supervisor.last_words import last_words

NAME = f"last-words-{os.getpid()}"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Of the program of the test, which is ended after it."""
    yield tmp_path / "program.log"
    if found := kept_under(NAME):
        found[0].kill()


def started(log: Path, code: str) -> Kept:
    return keep(NAME, Program([sys.executable, "-S", "-c", code], dict(os.environ), log, 2.0))


def asleep(log: Path) -> Kept:
    kept = started(log, "print('begun', flush=True)\nimport time\ntime.sleep(600)")
    assert eventually(lambda: log.read_text() == "begun\n")
    return kept


def ended(kept: Kept) -> bool:
    return eventually(lambda: not kept.is_alive)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (signal.SIGKILL, "it was killed with SIGKILL by somebody, or by the kernel for want of memory"),
        (signal.SIGSEGV, "it was killed with SIGSEGV; no cause found in its log"),
        (signal.SIGRTMIN + 3, "it was killed by signal 37; no cause found in its log"),
    ],
)
def test_a_signal_is_told(log: Path, number: int, told: str) -> None:
    kept = asleep(log)
    os.kill(kept.program_pid, number)
    assert ended(kept)
    assert last_words(log).startswith(told) and str(log) in last_words(log)


def test_an_exit_code_is_told(log: Path) -> None:
    assert ended(started(log, "raise SystemExit(7)"))
    assert last_words(log) == f"it ended with exit code 7; no cause found in its log {log}"


def test_what_it_said_itself_comes_first(log: Path) -> None:
    said = json.dumps({"error": "no such card"})
    assert ended(started(log, f"print({said!r})\nraise SystemExit(2)"))
    assert exit_code(log) == 2 and last_words(log) == "no such card"


def test_one_that_is_told_to_end_did_not_end_by_itself(log: Path) -> None:
    assert ended(started(log, "raise SystemExit(7)"))
    kept = asleep(log)
    kept.stop()
    assert ended(kept)
    assert exit_code(log) is None


def test_a_note_that_cannot_be_read_is_none(log: Path) -> None:
    log.with_name("program.log.end").write_bytes(b"\xff\x00")
    assert last_words(log) == f"no cause found in its log {log}"
