"""HAProxy itself, where it is installed: checks a configuration, runs one, and tells what it sees."""

from __future__ import annotations

import csv
import io
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kilocard.children import end
from kilocard.errors import KilocardError
from kilocard.processes import die_with_parent

INSTALL = "sudo apt-get install --no-install-recommends haproxy"
START_S = 10.0
STOP_S = 5.0


def haproxy_path() -> str | None:
    """The program, also where it stands outside an ordinary user's path."""
    return shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin")


def faults_of(configuration: str) -> list[str]:
    """What HAProxy minds in a configuration: none where it would start with it."""
    with _file(configuration) as file:
        ended = subprocess.run(
            [_program(), "-c", "-f", file],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    return _minded(ended.stderr) or ([f"it ends with {ended.returncode}"] if ended.returncode else [])


@contextmanager
def running(configuration: str, stats_port: int) -> Iterator[subprocess.Popen[bytes]]:
    """HAProxy in a process of its own, from its answer on the statistics' port to the end of the block."""
    with _file(configuration) as file, tempfile.TemporaryFile() as log:
        me = os.getpid()
        process = subprocess.Popen(
            [_program(), "-db", "-f", file],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=lambda: die_with_parent(me),  # noqa: PLW1509 (it calls nothing that takes a lock)
        )
        try:
            if not _answers(process, stats_port):
                log.seek(0)
                told = _minded(log.read().decode(errors="replace"))
                raise KilocardError(f"HAProxy does not start: {told[0] if told else 'it says nothing'}")
            yield process
        finally:
            end(process, STOP_S)


def statistics(stats_port: int) -> list[dict[str, str]]:
    """HAProxy's rows, one each for a frontend, a server and a backend, in the names of its `show stat`:
    `svname`, `status`, `scur` (connections now), `stot` (ever) …"""
    with socket.create_connection(("127.0.0.1", stats_port), timeout=START_S) as asked:
        asked.sendall(b"show stat\n")
        told = b"".join(iter(lambda: asked.recv(65_536), b"")).decode(errors="replace")
    return list(csv.DictReader(io.StringIO(told.removeprefix("# "))))


def _minded(told: str) -> list[str]:
    """The lines that tell a fault."""
    return [line.strip() for line in told.splitlines() if line.startswith(("[ALERT]", "[WARNING]"))]


def _program() -> str:
    if (path := haproxy_path()) is None:
        raise KilocardError(f"no haproxy is installed here: {INSTALL}")
    return path


@contextmanager
def _file(configuration: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="kilocard-haproxy-") as folder:
        path = Path(folder) / "haproxy.cfg"
        path.write_text(configuration, encoding="utf-8")
        yield str(path)


def _answers(process: subprocess.Popen[bytes], stats_port: int) -> bool:
    """Whether it says something: it takes connections already while it still tries for another port."""
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", stats_port), timeout=1) as asked:
                asked.sendall(b"show info\n")
                if asked.recv(1):
                    return process.poll() is None
        except OSError:
            pass
        time.sleep(0.02)
    return False
