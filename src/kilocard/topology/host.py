"""What of this machine a process may use: cores, NUMA nodes, NICs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.topology.nics import Nic, read_nics
from kilocard.topology.numa import NumaNode, read_nodes
from kilocard.topology.sys_files import read_cores, read_text, whole_number

SYS = Path("/sys")


@dataclass(frozen=True, slots=True)
class Host:
    """Cores that may be used, the nodes and NICs of the machine, and what the container is held to."""

    cores: tuple[int, ...]
    nodes: tuple[NumaNode, ...] = ()
    siblings: tuple[tuple[int, ...], ...] = ()
    """Usable cores that are threads of one physical core, where there are several."""
    quota_cores: float | None = None
    """CPU time that the control group grants, in cores; None where it is not limited or not known."""
    nics: tuple[Nic, ...] = ()

    def __post_init__(self) -> None:
        if not self.cores:
            raise KilocardError("a host without a core to use: name one at least")

    def cores_of(self, number: int | None) -> tuple[int, ...]:
        """The usable cores of a NUMA node; none where it is not known."""
        node = next((node for node in self.nodes if node.number == number), None)
        return tuple(core for core in self.cores if node and core in node.cores)

    @property
    def cores_by_node(self) -> dict[int, tuple[int, ...]]:
        """The usable cores of each node that has any; all as node 0 where the kernel names no node."""
        shares = {node.number: mine for node in self.nodes if (mine := self.cores_of(node.number))}
        known = sum(map(len, shares.values())) == len(self.cores)
        return shares if known else {0: self.cores}

    @property
    def physical_cores(self) -> tuple[int, ...]:
        """One usable thread of each physical core."""
        doubled = {core for group in self.siblings for core in sorted(group)[1:]}
        return tuple(core for core in self.cores if core not in doubled)


def read_host(sys_root: Path = SYS, cores: Iterable[int] | None = None) -> Host:
    """This machine; `cores` are the usable ones, by default those that this process may use."""
    usable = tuple(sorted(_usable() if cores is None else cores))
    return Host(
        usable, read_nodes(sys_root), _siblings(sys_root, usable), _quota(sys_root), read_nics(sys_root)
    )


def _usable() -> Iterable[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _siblings(sys_root: Path, usable: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    groups: set[tuple[int, ...]] = set()
    for core in usable:
        place = sys_root / f"devices/system/cpu/cpu{core}/topology"
        listed = read_cores(place / "thread_siblings_list") or read_cores(place / "core_cpus_list") or ()
        group = tuple(other for other in listed if other in usable)
        if len(group) > 1 and core in group:
            groups.add(group)
    return tuple(sorted(groups))


def _quota(sys_root: Path) -> float | None:
    words = (read_text(sys_root / "fs/cgroup/cpu.max") or "").split()
    granted, each = map(whole_number, words) if len(words) == 2 else (None, None)
    return granted / each if granted and each else None
