"""What programs write, kept within bounds: each log's last stretch, and the one before."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kilocard.launch.keep import before
from kilocard.supervisor.home import Home

MOST_LOG_BYTES = 64 * 2**20
"""Of a program; twice that with the one before."""
MOST_ACCESS_BYTES = 256 * 2**20
"""Some two days at ten requests a second."""
LOOK_EVERY_S = 10.0


class Logs:
    """Of one cluster."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._looked_s = 0.0

    def bound(self, gateways: Iterable[int], now_s: float) -> None:
        """Where it is time; `gateways` are processes that open the access log anew when they are told."""
        if now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        for log in self._home.logs.glob("*.log"):
            with suppress(OSError):
                _cut(log, MOST_LOG_BYTES)
        with suppress(OSError):
            _rotate(self._home.access_log, gateways)


def _cut(log: Path, most_bytes: int) -> None:
    """Its writer has it open, and goes on at the end of what is left: nothing."""
    if log.stat().st_size > most_bytes:
        shutil.copyfile(log, before(log))
        os.truncate(log, 0)


def _rotate(log: Path, gateways: Iterable[int]) -> None:
    if log.stat().st_size > MOST_ACCESS_BYTES:
        log.replace(before(log))
        for pid in gateways:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)
