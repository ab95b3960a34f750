"""Ends a cluster whose supervisor has died, in its place and by the same rules."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.specs.cluster import ClusterSpec, read_cluster
from kilocard.supervisor.home import Home
from kilocard.supervisor.running import ADMIN_KEY, taken_up
from kilocard.supervisor.starting import Starter
from kilocard.supervisor.supervisor import LOOK_S, Supervisor


def end_here(path: Path, home: Home, say: Callable[[str], None]) -> None:
    """Until nothing of it runs any more."""
    with home.locked():
        starter = Starter(home, False, admin_key=os.environ.get(ADMIN_KEY, ""))
        supervisor = Supervisor(_spec(path, home), taken_up(home, path, say), home, starter, say)
        supervisor.end()
        try:
            while not supervisor.is_over:
                supervisor.tick(time.monotonic())
                time.sleep(LOOK_S)
            home.state.unlink(missing_ok=True)
        finally:
            supervisor.close()


def _spec(path: Path, home: Home) -> ClusterSpec:
    """Where the file cannot be read any more, it is ended by what was read of it last."""
    try:
        return read_cluster(path)
    except KilocardError:
        if not home.known_file.exists():
            raise
        return read_cluster(home.known_file)
