"""Engines and gateways as processes: started, waited for, watched and stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psutil
from gateway_engine import Script
from peer_environment import PeerMissingError, last_line

from gateway_peers.place import Gateway, Place, free_ports

READY_S = 60.0
ENGINES = Path(__file__).parents[1] / "gateway_engines.py"


@dataclass(frozen=True, slots=True)
class Started:
    """A process with all that it has started."""

    process: subprocess.Popen[bytes]
    ports: tuple[int, ...]

    def cpu_s(self) -> float:
        """User and system time of the whole tree, with those of its children that have ended."""
        return sum(_cpu_s(process) for process in self._tree())

    def memory_mb(self) -> float:
        """Resident, of the whole tree."""
        return sum(_resident(process) for process in self._tree()) / 1e6

    def _tree(self) -> list[psutil.Process]:
        root = psutil.Process(self.process.pid)
        return [root, *root.children(recursive=True)]


def _cpu_s(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return int(process.memory_info().rss)
    return 0


@contextmanager
def fake_engines(script: Script, count: int) -> Iterator[Started]:
    """So many engines in one process."""
    ports = free_ports(count)
    argv = [sys.executable, str(ENGINES), "--script", json.dumps(asdict(script))]
    with _running([*argv, "--ports", ",".join(map(str, ports))], {}, ports) as engines:
        for port in ports:
            _await(lambda port=port: _status(port, "GET", "/health") == 200, engines.process, "the engines")
        yield engines


@contextmanager
def started(gateway: Gateway, engines: Sequence[int]) -> Iterator[Started | None]:
    """A gateway before the engines, once it has answered; None where the client is to ask them itself."""
    if gateway.command is None:
        yield None
        return
    port, metrics_port = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        command = gateway.command(Place(Path(folder), port, metrics_port, engines))
        with _running(command.argv, command.environment, [port], Path(folder) / "log") as running:
            _await(lambda: _completes(port), running.process, gateway.name)
            yield running


@contextmanager
def _running(
    argv: list[str], environment: dict[str, str], ports: Sequence[int], log: Path | None = None
) -> Iterator[Started]:
    path = log or Path(os.devnull)
    with path.open("wb") as sink:
        process = subprocess.Popen(
            argv,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    tree = Started(process, tuple(ports))
    try:
        yield tree
    except NotReadyError as error:
        said = path.read_text(errors="replace") if log else ""
        raise PeerMissingError(f"{error}: {last_line(said)}") from error
    finally:
        _stop(process)


class NotReadyError(Exception):
    """What was started does not answer."""


def _stop(process: subprocess.Popen[bytes]) -> None:
    tree: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        tree = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    for child in tree:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def _await(is_ready: Any, process: subprocess.Popen[bytes], name: str) -> None:
    deadline = monotonic() + READY_S
    while monotonic() < deadline:
        if process.poll() is not None:
            raise NotReadyError(f"{name} ended with {process.returncode}")
        if is_ready():
            return
        sleep(0.05)
    raise NotReadyError(f"{name} does not answer")


def _completes(port: int) -> bool:
    body = {"model": "fake", "messages": [{"role": "user", "content": "ready? tokens=1"}], "user": "ready"}
    return _status(port, "POST", "/v1/chat/completions", json.dumps({**body, "max_tokens": 4})) == 200


def _status(port: int, method: str, path: str, body: str | None = None) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, body, {"content-type": "application/json"} if body else {})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


def served(ports: Sequence[int]) -> list[dict[str, Any]]:
    """What the engines have really served, all in one list."""
    rows: list[dict[str, Any]] = []
    for port in ports:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", "/fake/served")
            rows += json.load(connection.getresponse())
        finally:
            connection.close()
    return rows
