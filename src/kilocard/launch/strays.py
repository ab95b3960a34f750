"""What a guard leaves that was itself killed: found by its folder, its session and its mark, and ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path

from kilocard import processes
from kilocard.launch import guard

MAX_TEMP_ROOT = 48
"""Longer folders leave too little of a Unix socket's 107 characters for vLLM's own sockets."""
GUARDS_FOLDER = re.compile(r"kilocard-\d+-\d+")
"""Its guard's process and age: folders of other names are others' to remove."""
NEW_FOLDER_S = 60.0
"""A folder may be this young and not yet locked by its guard."""
PATIENCE_S = 2.0


def temp_root() -> Path:
    """Where each engine gets a temporary folder of its own."""
    root = tempfile.gettempdir()
    return Path(root if len(root) <= MAX_TEMP_ROOT else "/tmp")


def strays() -> list[int]:
    """The processes of engines whose guard was killed."""
    return _strays_of(dead_folders())


def sweep() -> list[int]:
    """Kill those processes, and remove their folders and shared memory; the ids of what was ended."""
    folders = dead_folders()
    ended = _strays_of(folders)
    shared = {path for pid in ended for path in processes.shared_files_of(pid)}
    trackers = {pid for pid in ended if processes.is_resource_tracker(pid)}
    _kill(set(ended) - trackers)
    _kill(_still_there_after(trackers, PATIENCE_S))
    _still_there_after(set(ended), PATIENCE_S)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    if ended or folders:
        processes.remove_shared(shared | _stale_registrations())
    return ended


def dead_folders() -> list[Path]:
    """The temporary folders that no living guard holds the lock of, whatever its PID namespace."""
    named = (folder for folder in temp_root().glob("kilocard-*") if GUARDS_FOLDER.fullmatch(folder.name))
    return [folder for folder in named if _is_dead(folder)]


def _is_dead(folder: Path) -> bool:
    try:
        if folder.stat().st_uid != os.getuid():
            return False
        lock = folder / guard.LOCK
        if not lock.exists():
            return time.time() - folder.stat().st_mtime > NEW_FOLDER_S
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError:
        return False


def _strays_of(folders: list[Path]) -> list[int]:
    guards = {tuple(folder.name.split("-")[1:3]) for folder in folders}
    gone = {pid for pid, _ in guards if pid.isdigit() and not processes.stat_fields(int(pid))}
    marks = {f"{pid}:{began}".encode() for pid, began in guards}
    return [pid for pid in processes.process_ids() if guards and _belongs(pid, gone, marks)]


def _belongs(pid: int, sessions: set[str], marks: set[bytes]) -> bool:
    """Whether a process is of a dead guard: by the mark in its environment, which vLLM's own title may have
    overwritten; else by its session together with its output, an engine's log."""
    fields = processes.stat_fields(pid)
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        output = Path(f"/proc/{pid}/fd/1").readlink().name
    except OSError:
        return False
    found = re.search(rb"(?:^|\0)KILOCARD_GUARD=(\d+:\d+)", environment)
    if found and found.group(1) in marks:
        return True
    return bool(fields) and fields[3] in sessions and re.fullmatch(r"engine-\w+\.log", output) is not None


def _kill(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _still_there_after(pids: set[int], patience_s: float) -> set[int]:
    deadline = time.monotonic() + patience_s
    while (left := {pid for pid in pids if processes.is_running(pid)}) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def _stale_registrations() -> set[Path]:
    """OpenMP's notes in shared memory of processes that are no more."""
    found = set()
    for path in processes.SHARED_MEMORY.glob("__KMP_REGISTERED_LIB_*_*"):
        pid = path.name.split("_")[-2]
        with contextlib.suppress(OSError):
            if pid.isdigit() and not processes.is_running(int(pid)) and path.stat().st_uid == os.getuid():
                found.add(path)
    return found
