"""However a set-up ends, it ends in one line, takes its programs with it, and can be gone on with."""

from __future__ import annotations

import ast
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of nothing but the set-up."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("requirements.txt", "requirements-cpu.txt", "requirements-book.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.fixture
def silent_index() -> Iterator[str]:
    """A package index that takes every question and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def begin(checkout: Path, index: str, **options: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PIP_INDEX_URL": index, "PIP_RETRIES": "1", "PIP_CONFIG_FILE": os.devnull}
    command = [sys.executable, str(checkout / "tools" / "setup"), "--box", "book"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, text=True, env=environment, **pipes)  # type: ignore[call-overload,no-any-return]


def until(set_up: subprocess.Popen[str], words: str) -> None:
    assert set_up.stdout
    assert any(words in line for line in set_up.stdout)


def programs_of(checkout: Path) -> list[str]:
    """The command lines of whatever still runs from this checkout."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in found if str(checkout) in line]


def eventually(what: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not what() and time.monotonic() < deadline:
        time.sleep(0.02)
    return what()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_killed_set_up_takes_pip_with_it_and_is_gone_on_with(
    checkout: Path, silent_index: str, number: signal.Signals
) -> None:
    set_up = begin(checkout, silent_index)
    until(set_up, "pip ")
    assert eventually(lambda: any("-m pip" in line for line in programs_of(checkout)))
    set_up.send_signal(number)
    _, said = set_up.communicate(timeout=20)
    assert eventually(lambda: not programs_of(checkout)), programs_of(checkout)
    if number is not signal.SIGKILL:
        assert said == "set-up: interrupted: run the same command again, it goes on from here\n"
        assert set_up.returncode == 128 + number
    assert (checkout / ".venv").is_dir()

    again = begin(checkout, NOBODY)
    out, said = again.communicate(timeout=120)
    assert "virtual environment with Python" not in out
    assert again.returncode == 1
    assert said.startswith("set-up: the package index cannot be reached: connect, or name another")
    assert said.count("\n") == 1


def test_a_second_set_up_waits_for_the_first(checkout: Path) -> None:
    (checkout / ".cache").mkdir()
    with (checkout / ".cache" / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        set_up = begin(checkout, NOBODY)
        until(set_up, "another set-up of this checkout is at work: waiting for it")
        assert set_up.poll() is None
    until(set_up, "setting up .venv")
    set_up.terminate()
    set_up.communicate(timeout=20)


def test_a_full_output_ends_it_in_one_line(checkout: Path) -> None:
    with Path("/dev/full").open("w") as full:
        set_up = begin(checkout, NOBODY, stdout=full)
        _, said = set_up.communicate(timeout=60)
    assert set_up.returncode == 1
    assert said.startswith("set-up: its output cannot be written (No space left on device): run the same")
    assert said.count("\n") == 1


def test_a_checkout_that_cannot_be_written_ends_it_in_one_line(checkout: Path) -> None:
    (checkout / ".cache").touch()
    set_up = begin(checkout, NOBODY)
    _, said = set_up.communicate(timeout=60)
    assert set_up.returncode == 1
    assert said.startswith("set-up: File exists (")
    assert said.count("\n") == 1


def test_an_old_python_is_told_so() -> None:
    entry = ROOT / "tools" / "setup" / "__main__.py"
    ast.parse(entry.read_text(), feature_version=(3, 4))
    pretend = f"import runpy, sys; sys.version_info = (3, 6, 15); runpy.run_path({str(entry)!r})"
    ended = subprocess.run(
        [sys.executable, "-c", pretend], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("set-up: Python 3.11 or newer is needed, this is ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("BOX=foo", "set-up: BOX=foo is no kind of box: BOX=cpu, BOX=gpu or BOX=book"),
        ("BOX=it's", "set-up: BOX=it's is no kind of box: BOX=cpu, BOX=gpu or BOX=book"),
        ("PYTHON=/nonexistent", "set-up: /nonexistent is no Python that runs here: install 3.11 or newer"),
        ("PYTHON=/bin/true", "set-up: /bin/true is no Python that runs here: install 3.11 or newer"),
        ("PYTHON=/", "set-up: / is no Python that runs here: install 3.11 or newer"),
    ],
)
def test_make_names_a_bad_value(given: str, said: str) -> None:
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    ended = subprocess.run(
        ["make", "setup", given], cwd=ROOT, env=alone, capture_output=True, text=True, timeout=60, check=False
    )
    own, makes = ended.stderr.splitlines()
    assert ended.returncode == 2
    assert own.startswith(said)
    assert makes.startswith("make")
