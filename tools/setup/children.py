"""The programs that the set-up runs: each dies with it, so that none goes on alone."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

PR_SET_PDEATHSIG = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


def run(
    command: Iterable[str | Path], show: bool = False, end_with: signal.Signals = signal.SIGTERM
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, without input; what it says is kept, or shown but for its errors."""
    return subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=None if show else subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
        preexec_fn=_dying_with(os.getpid(), end_with) if _prctl else None,
    )


def last_words(ended: subprocess.CompletedProcess[str]) -> str:
    """The last line of its errors, or its exit code."""
    lines = [line for line in (ended.stderr or "").splitlines() if line.strip()]
    return lines[-1][-300:] if lines else f"exit {ended.returncode}"


def _dying_with(parent: int, number: signal.Signals) -> Callable[[], None]:
    def prepare() -> None:
        _prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare
