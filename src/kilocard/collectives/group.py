"""The ranks as processes: started together, watched together, and gone together."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import IO

from kilocard.collectives.work import Work
from kilocard.collectives.worker import HOST, Orders
from kilocard.errors import KilocardError
from kilocard.processes import openmp_files_of_the_dead, remove_shared, settle

POLL_S = 0.02
BLAME_S = 1.0
"""After the first failure, for the others to tell theirs: the rank that was killed is the cause."""


class Group:
    """Processes that do one work; nothing of them is left when the block ends.

    They meet on a socket that this process binds, and write to files without a name: were this process
    killed, nothing would have to be cleaned up.
    """

    def __init__(self, work: Work, cores: Sequence[int], limit_s: float) -> None:
        self.work, self.limit_s = work, limit_s
        self._until_s = time.monotonic() + limit_s
        self._ranks: list[subprocess.Popen[bytes]] = []
        with contextlib.ExitStack() as opened:
            self._said = [_scratch(opened) for _ in range(work.ranks)]
            self._complained = [_scratch(opened) for _ in range(work.ranks)]
            listener = opened.enter_context(socket.create_server((HOST, 0)))
            memory_fd = os.memfd_create("kilocard-copies")
            opened.callback(os.close, memory_fd)
            os.ftruncate(memory_fd, work.copy_bytes * work.ranks)
            opened.callback(self._kill)
            for rank in range(work.ranks):
                self._start(rank, listener, memory_fd, [cores[rank]] if cores else [])
            self._opened = opened.pop_all()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def ended(self) -> list[str]:
        """What each rank wrote, once all have ended well; else which one did not."""
        while any(rank.poll() is None for rank in self._ranks):
            if any(rank.poll() for rank in self._ranks):
                break
            if time.monotonic() > self._until_s:
                raise KilocardError(self._no_end())
            time.sleep(POLL_S)
        if any(rank.poll() for rank in self._ranks):
            raise KilocardError(self._blame())
        return [_read(it) for it in self._said]

    def _start(self, rank: int, listener: socket.socket, memory_fd: int, cores: list[int]) -> None:
        me = os.getpid()
        orders = Orders(
            rank=rank,
            port=listener.getsockname()[1],
            listen_fd=listener.fileno(),
            memory_fd=memory_fd,
            limit_s=self.limit_s,
            work=self.work,
        )
        self._ranks.append(
            subprocess.Popen(
                [sys.executable, "-m", "kilocard.collectives.worker", json.dumps(asdict(orders))],
                stdin=subprocess.DEVNULL,
                stdout=self._said[rank],
                stderr=self._complained[rank],
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                pass_fds=(memory_fd, listener.fileno()) if rank == 0 else (memory_fd,),
                preexec_fn=lambda: settle(me, cores),  # noqa: PLW1509 (it forks no thread)
            )
        )

    def _blame(self) -> str:
        until_s = time.monotonic() + BLAME_S
        while any(rank.poll() is None for rank in self._ranks) and time.monotonic() < until_s:
            time.sleep(POLL_S)
        failed = [(rank.returncode, at) for at, rank in enumerate(self._ranks) if rank.poll()]
        code, at = min(failed)
        name = f"rank {at} of {self.work.ranks}"
        if code < 0:
            return (
                f"{name} was killed in mid-run by {signal.Signals(-code).name}: nothing was measured; if "
                "memory ran out, give smaller messages or fewer ranks, else run it again"
            )
        lines = _read(self._complained[at]).strip().splitlines() or [f"exit {code}"]
        return f"{name} failed ({lines[-1][:160]}): nothing was measured"

    def _no_end(self) -> str:
        still = [str(at) for at, rank in enumerate(self._ranks) if rank.poll() is None]
        return (
            f"no end of {self.work.operation} between {self.work.ranks} ranks within {self.limit_s:g} s "
            f"(rank {', '.join(still)} still runs): quiet the box, give smaller messages, or a larger limit_s"
        )

    def _kill(self) -> None:
        for rank in self._ranks:
            rank.kill()
        for rank in self._ranks:
            rank.wait()
        remove_shared(openmp_files_of_the_dead())


def _scratch(opened: contextlib.ExitStack) -> IO[bytes]:
    try:
        return opened.enter_context(tempfile.TemporaryFile())
    except OSError as error:
        raise KilocardError(
            f"no place for what the ranks say ({error.strerror or error}): "
            "name a folder to write in with TMPDIR"
        ) from error


def _read(scratch: IO[bytes]) -> str:
    scratch.seek(0)
    return scratch.read().decode(errors="replace")
