"""A truth server in a process of its own, for tests and benchmarks."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from time import monotonic, sleep
from typing import Self

from kilocard.load.truth_script import Script, Served, to_arguments
from kilocard.processes import free_ports


@dataclass(slots=True)
class TruthServer:
    """A running server, in a process of its own."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def served(self) -> list[Served]:
        """Its log so far."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", "/truth")
            return [Served(**row) for row in json.load(connection.getresponse())]
        finally:
            connection.close()

    def kill(self) -> None:
        """As an engine dies: without a word."""
        self.process.kill()
        self.process.wait()

    def _await_ready(self, timeout_s: float = 30.0) -> Self:
        deadline = monotonic() + timeout_s
        while monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                sleep(0.02)
            else:
                return self
        raise RuntimeError(f"the truth server does not listen on port {self.port}")


@contextmanager
def truth_server(script: Script | None = None, port: int | None = None) -> Iterator[TruthServer]:
    """Run one in a process of its own, and stop it afterwards."""
    port = port or free_ports(1)[0]
    command = [sys.executable, "-m", "kilocard.load.truth_server", "--port", str(port)]
    process = subprocess.Popen([*command, *to_arguments(script or Script())])
    try:
        yield TruthServer(port, process)._await_ready()
    finally:
        process.kill()
        process.wait()
