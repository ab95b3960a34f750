"""Which of a cluster's gateways a process is, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """Which gateway this is: number `gateway` of `gateways`, by which its operator's ports count too."""

    path: Path
    host: str
    port: int
    gateway: int = 0
    gateways: int = 1
    shares_port: bool = False
    drain_s: float = 600.0
    seed: int = 0
    is_alone: bool = False
    """On its machine: its doors are at the file's ports, whatever its number."""

    @property
    def offset(self) -> int:
        """Of its doors' ports."""
        return 0 if self.is_alone else self.gateway
