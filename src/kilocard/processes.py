"""The processes of this machine, as /proc shows them: their parents and ages, and the memory that they share.

Standard library only: the guard of an engine has nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
import socket
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
LOOK_EVERY_S = 1.0
SHARED_MEMORY = Path("/dev/shm")
SHARED_NAMES = ("psm_", "sem.", "__KMP_REGISTERED_LIB_", "nccl-", "torch_", "vllm")

libc = ctypes.CDLL(None, use_errno=True)


def raise_file_limit() -> int | None:
    """Let this process open as many files as it may; how many that is, None for no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return None if hard == resource.RLIM_INFINITY else hard


def die_with_parent(parent: int, by: int = signal.SIGKILL) -> None:
    """In the child, before its program starts: be killed, or told by another signal, when the parent dies."""
    libc.prctl(PR_SET_PDEATHSIG, by, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def settle(parent: int, cores: list[int]) -> None:
    """In the child, before its program starts: the same, and stay on these cores where some are named."""
    die_with_parent(parent)
    if cores:
        os.sched_setaffinity(0, cores)


def descendants(root: int) -> list[int]:
    """Every process below this one, children of children too."""
    children: dict[int, list[int]] = {}
    for pid in process_ids():
        if fields := stat_fields(pid):
            children.setdefault(int(fields[1]), []).append(pid)
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def process_ids() -> list[int]:
    """Every process that this one can see."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on, or none when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def is_running(pid: int) -> bool:
    """Whether there is such a process, and not only what is left of it for its parent to read."""
    fields = stat_fields(pid)
    return bool(fields) and fields[0] != "Z"


def started_at(pid: int) -> str:
    """When a process started, in clock ticks since boot: tells it from a later one with the same id."""
    fields = stat_fields(pid)
    return fields[19] if fields else ""


def shared_files_of(pid: int) -> set[Path]:
    """The files in /dev/shm that a process has mapped."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return set()
    return {Path(name) for name in re.findall(r" (/dev/shm/\S+)$", maps, re.MULTILINE)}


class SharedNames:
    """The names in /dev/shm at the last two looks: to ask whether one is new costs next to nothing."""

    def __init__(self) -> None:
        self._seen: list[set[str]] = [set(), set()]

    def changed(self) -> bool:
        """Whether a name came or went since the look before, or then: a file is first named, then mapped."""
        before_last, last = self._seen
        names = {path.name for path in SHARED_MEMORY.iterdir()}
        self._seen = [last, names]
        return not names == last == before_last


class SharedFiles:
    """What the processes below one share in memory: looked for while they live, for the dead tell nothing."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._files: set[Path] = set()
        self._names = SharedNames()
        self._every_s = 0.05
        self.due_s = 0.0
        """When to look next: often at first, then every second."""

    def look(self) -> None:
        """Where it is time, and a name is new."""
        if time.monotonic() < self.due_s:
            return
        if self._names.changed():
            for pid in descendants(self._root):
                self.note(pid)
        self.due_s = time.monotonic() + self._every_s
        self._every_s = min(2 * self._every_s, LOOK_EVERY_S)

    def note(self, pid: int) -> None:
        """Whatever this process has mapped."""
        self._files |= shared_files_of(pid)

    def reaped(self, pid: int) -> None:
        """What OpenMP registered for a process that has just ended."""
        self._files |= set(SHARED_MEMORY.glob(f"__KMP_REGISTERED_LIB_{pid}_*"))

    def remove(self) -> None:
        """All that was found, once nothing of it runs any more."""
        remove_shared(self._files | openmp_files_of_the_dead())


def openmp_files_of_the_dead() -> set[Path]:
    """What OpenMP registered for processes of this user that are gone: one reaped unseen leaves it behind."""
    found = set()
    for path in SHARED_MEMORY.glob("__KMP_REGISTERED_LIB_*"):
        pid = path.name.split("_")[-2]
        with contextlib.suppress(OSError, ValueError):
            if path.stat().st_uid == os.getuid() and not is_running(int(pid)):
                found.add(path)
    return found


def remove_shared(files: set[Path]) -> None:
    """Remove what an engine shared among its processes, told by its name from what it shares with others."""
    for path in files:
        if path.name.startswith(SHARED_NAMES):
            with contextlib.suppress(OSError):
                path.unlink()


def is_resource_tracker(pid: int) -> bool:
    """Whether this is the process that Python starts to clean up shared memory."""
    try:
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that nobody listens on at this moment, all different."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((host, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def free_row_of_ports(count: int, host: str = "127.0.0.1") -> int:
    """The first of so many ports in a row that nobody listens on at this moment."""
    while True:
        [first] = free_ports(1, host)
        if first + count > 65_536:
            continue
        try:
            with contextlib.ExitStack() as held:
                for port in range(first, first + count):
                    held.enter_context(socket.socket()).bind((host, port))
        except OSError:
            continue
        return first
