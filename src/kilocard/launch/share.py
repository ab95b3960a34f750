"""Who uses which engine: one guard an engine, found by name, joined by a connection that a death closes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kilocard.errors import KilocardError
from kilocard.launch import guard, strays
from kilocard.launch.command import Command
from kilocard.launch.lease import Lease, claim, introduced, join
from kilocard.launch.model_files import torch_cache
from kilocard.launch.ports import reserved_port

LOG_ROOM_BYTES = 2**16


def lease(command: Command, port: int, log: Path, drain_s: float, timeout_s: float = 120.0) -> Lease:
    """Join the engine that runs with this very command, or start one under a guard of its own.

    Waits for one that is about to stop; `port` (0: a free one) counts only where an engine is started.
    """
    address = _name_of(command)
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        if held := join(address):
            return held
        if listener := claim(address):
            return _start(command, port, log, drain_s, listener)
        time.sleep(0.05)
    raise KilocardError(
        f"an engine with this spec has been stopping for {timeout_s:.0f} s: run `kilocard doctor`"
    )


def is_shared(command: Command) -> bool:
    """Whether an engine with this very command runs, that can be joined."""
    held = join(_name_of(command))
    if held:
        held.leave()
    return held is not None


def _name_of(command: Command) -> str:
    return f"\0kilocard-{os.getuid()}-{command.digest}"


def _start(command: Command, port: int, log: Path, drain_s: float, listener: socket.socket) -> Lease:
    with listener, ExitStack() as stack:
        reserved = [stack.enter_context(held) for held in reserved_port(port)]
        port = reserved[0].getsockname()[1]
        orders = {
            "argv": command.on_port(port),
            "environment": {**torch_cache(), **os.environ, **command.environment},
            "info": {"url": f"http://127.0.0.1:{port}", "drain_s": drain_s},
            "drain_s": drain_s,
            "cores": list(command.cores),
        }
        return guarded(orders, log, listener, reserved)


def guarded(
    orders: Mapping[str, Any], log: Path, listener: socket.socket, reserved: Sequence[socket.socket] = ()
) -> Lease:
    """Start a program under a guard of its own, and hold it as its first user. `listener` is the name that
    the guard answers to."""
    strays.sweep()
    begin_log(log)
    mine, theirs = socket.socketpair()
    info = {**orders["info"], "log": str(log)}
    whole = {**orders, "info": info, "log": str(log), "temp_root": str(strays.temp_root())}
    with theirs:
        handles = [held.fileno() for held in (listener, theirs, *reserved)]
        with log.open("ab") as trouble:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, *map(str, handles)],
                stdin=subprocess.PIPE,
                stdout=trouble,
                stderr=trouble,
                pass_fds=handles,
                start_new_session=True,
            )
        assert process.stdin
        process.stdin.write(json.dumps(whole).encode())
        process.stdin.close()
    threading.Thread(target=_outlive, args=(process,), name="kilocard-guard", daemon=True).start()
    held = introduced(mine, joined=False)
    if held is None:
        raise KilocardError(f"the engine could not be started: {_last_line(log)} (log: {log})")
    return held


def begin_log(log: Path) -> None:
    """An empty log, on a disk that has room for the first words: a full one says so only when written to."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(bytes(LOG_ROOM_BYTES))
        log.write_bytes(b"")
    except OSError as error:
        raise KilocardError(
            f"the engine's log {log} cannot be written ({error.strerror}): free some disk, "
            "or name another place in KILOCARD_CACHE"
        ) from error


def _outlive(process: subprocess.Popen[bytes]) -> None:
    """Wait for the guard, so that it leaves no zombie; end its engine where it could not do so itself."""
    if process.wait() < 0:
        strays.sweep()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "its guard gave no reason"
