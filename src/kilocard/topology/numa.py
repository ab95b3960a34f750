"""NUMA nodes, as the kernel shows them in /sys/devices/system/node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.topology.sys_files import folders, read_cores, read_text

KIB = 1024


@dataclass(frozen=True, slots=True)
class NumaNode:
    """Cores and the memory beside them. A distance of 10 is the node itself, 20 is twice as far."""

    number: int
    cores: tuple[int, ...] = ()
    memory_bytes: int | None = None
    distances: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.number < 0 or (self.memory_bytes or 0) < 0:
            raise KilocardError(
                f"NUMA node {self.number} of {self.memory_bytes} bytes: give no negative number"
            )


def read_nodes(sys_root: Path) -> tuple[NumaNode, ...]:
    """The nodes in order of their numbers; none where the kernel shows none."""
    found = [
        (int(named[1]), place)
        for place in folders(sys_root / "devices/system/node")
        if (named := re.fullmatch(r"node(\d{1,4})", place.name, re.ASCII))
    ]
    return tuple(
        NumaNode(number, read_cores(place / "cpulist") or (), _memory(place), _distances(place))
        for number, place in sorted(found)
    )


def _memory(place: Path) -> int | None:
    named = re.search(r"MemTotal:\s*(\d{1,15}) kB", read_text(place / "meminfo") or "", re.ASCII)
    return int(named[1]) * KIB if named else None


def _distances(place: Path) -> tuple[int, ...] | None:
    words = (read_text(place / "distance") or "").split()
    known = words and all(word.isascii() and word.isdigit() and len(word) < 6 for word in words)
    return tuple(map(int, words)) if known else None
