"""A child says where it serves or why it does not, and is gone when it should be."""

import subprocess
import sys

import pytest

from kilocard.children import end, first_word
from kilocard.errors import KilocardError


def child(program: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def test_the_first_line_is_what_it_tells() -> None:
    process = child("print('{\"url\": 1}', flush=True); input()")
    assert first_word(process, "it") == {"url": 1}
    end(process, 10)


@pytest.mark.parametrize(
    ("program", "says"),
    [("raise SystemExit(3)", "the toy did not start"), ('print(\'{"error": "no port"}\')', "no port")],
)
def test_why_it_does_not_serve_is_an_error(program: str, says: str) -> None:
    process = child(program)
    with pytest.raises(KilocardError, match=says):
        first_word(process, "the toy")
    assert process.poll() is not None
    end(process, 10)


def test_one_that_does_not_listen_is_killed() -> None:
    process = child(
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('{}', flush=True)\ntime.sleep(600)"
    )
    first_word(process, "it")
    end(process, 0.1)
    assert process.returncode == -9
    end(process, 0.1)
