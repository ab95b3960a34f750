"""What a gateway is started with, and what starts it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of its own, the port to listen on, another for its metrics, and the engines."""

    folder: Path
    port: int
    metrics_port: int
    engines: Sequence[int]

    def file(self, name: str, content: str) -> str:
        """Write one of its files; where it lies."""
        path = self.folder / name
        path.write_text(content, encoding="utf-8")
        return str(path)

    @property
    def urls(self) -> list[str]:
        """Of the engines."""
        return [f"http://127.0.0.1:{port}" for port in self.engines]


@dataclass(frozen=True, slots=True)
class Command:
    """What starts a gateway."""

    argv: list[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway with one of its policies. `command` is None for none at all: the client asks the engines."""

    peer: str
    policy: str
    command: Callable[[Place], Command] | None
    version: Callable[[], str]
    """Installs it where that is needed; `PeerMissingError` says why it cannot be had."""
    settings: frozenset[str] = frozenset()
    """Where the policy makes sense; empty for everywhere."""

    @property
    def name(self) -> str:
        """Both."""
        return f"{self.peer}, {self.policy}" if self.policy else self.peer


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
