"""Emulated engines in a process of their own: what cannot be is said to the caller, and none outlives it."""

import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest
from emulator_client import case_of

from kilocard.emulator import emulated
from kilocard.errors import KilocardError
from kilocard.processes import stat_fields

HOLDS_ONE = """
import sys, time
sys.path.insert(0, {folder!r})
from emulator_client import case_of
from kilocard.emulator import emulated
with emulated(case_of()) as engines:
    print(engines.process.pid, flush=True)
    time.sleep(60)
"""


def is_alive(process: int) -> bool:
    fields = stat_fields(process)
    return bool(fields) and fields[0] != "Z"


@pytest.mark.parametrize("options", [{"port": 65_536}, {"faults": ["nothing"]}])
def test_what_cannot_be_is_said_to_the_caller(options: dict[str, object]) -> None:
    with pytest.raises(KilocardError, match=r"port|speed|fault"), emulated(case_of(), **options):  # type: ignore[arg-type]
        pass


def test_it_ends_with_the_block() -> None:
    with emulated(case_of()) as engines:
        assert engines.process.poll() is None
    assert engines.process.returncode == 0


def test_it_ends_with_whoever_started_it_even_if_that_is_killed() -> None:
    code = HOLDS_ONE.format(folder=str(Path(__file__).parent))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        child = int(holder.stdout.readline())
        holder.send_signal(signal.SIGKILL)
    deadline = monotonic() + 10
    while is_alive(child) and monotonic() < deadline:
        sleep(0.05)
    assert not is_alive(child)
