"""Ends a cluster whose supervisor has died, in its place and by the same rules."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kilocard.specs.cluster import read_cluster
from kilocard.supervisor.home import Home
from kilocard.supervisor.running import taken_up
from kilocard.supervisor.starting import Starter
from kilocard.supervisor.supervisor import LOOK_S, Supervisor


def end_here(path: Path, home: Home, say: Callable[[str], None]) -> None:
    """Until nothing of it runs any more."""
    with home.locked():
        supervisor = Supervisor(read_cluster(path), taken_up(home, path), home, Starter(home, False), say)
        supervisor.end()
        try:
            while not supervisor.is_over:
                supervisor.tick(time.monotonic())
                time.sleep(LOOK_S)
            home.state.unlink(missing_ok=True)
        finally:
            supervisor.close()
