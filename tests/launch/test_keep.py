"""Programs that outlive who started them: found by their names, ended by them, alone on their ports."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch_fakes import eventually

from kilocard.errors import KilocardError
from kilocard.launch.keep import Kept, Program, before, keep, kept_under
from kilocard.processes import free_ports, is_running

NAME = f"test-{os.getpid()}"
SLEEP = "print('begun', flush=True)\nimport time\ntime.sleep(600)"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Of the program of the test, which is ended after it."""
    yield tmp_path / "program.log"
    if found := kept_under(NAME):
        found[0].stop()
        assert eventually(lambda: not found[0].is_alive)


def a_program(log: Path, code: str = SLEEP, **more: int) -> Program:
    return Program([sys.executable, "-S", "-c", code], dict(os.environ), log, 2.0, **more)  # type: ignore[arg-type]


def ended(kept: Kept) -> bool:
    kept.stop()
    return eventually(lambda: not kept.is_alive) and not is_running(kept.program_pid)


def test_one_that_runs_is_found_with_its_settings_and_its_port(log: Path) -> None:
    [port] = free_ports(1)
    assert kept_under(NAME) is None
    kept = keep(NAME, a_program(log, port=port), "a")
    assert kept_under(NAME) == (kept, "a", port)
    assert keep(NAME, a_program(log, port=port), "a") == kept
    assert ended(kept) and kept_under(NAME) is None


def test_one_with_other_settings_is_ended_first(log: Path) -> None:
    kept = keep(NAME, a_program(log), "a")
    with pytest.raises(KilocardError, match="it is being stopped first"):
        keep(NAME, a_program(log), "b")
    assert eventually(lambda: not kept.is_alive)
    other = keep(NAME, a_program(log), "b")
    assert other != kept and ended(other)


def test_a_port_that_another_program_has_is_one_line_and_starts_nothing(log: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(KilocardError, match=rf"port {port} is taken: end the program that has it"):
            keep(NAME, a_program(log, port=port))
        assert kept_under(NAME) is None


def test_the_log_of_the_one_before_is_kept(log: Path) -> None:
    for words in ("one", "two", "three"):
        kept = keep(NAME, a_program(log, f"print({words!r})"))
        assert eventually(lambda its=kept: not its.is_alive)  # type: ignore[misc]
    assert (before(log).read_text(), log.read_text()) == ("two\n", "three\n")


def test_one_that_hears_nothing_is_killed(log: Path) -> None:
    deaf = (
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(600)"
    )
    kept = keep(NAME, a_program(log, deaf))
    assert eventually(lambda: log.read_text() == "deaf\n")
    os.kill(kept.pid, 19)  # its guard stands still, too
    kept.stop()
    kept.kill()
    assert eventually(lambda: not kept.is_alive and not is_running(kept.program_pid))
