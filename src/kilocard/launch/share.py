"""Who uses which engine: one guard an engine, found by name, joined by a connection that a death closes.

The name is a Linux abstract socket: bound by one process at a time and gone with it, so that there is no
stale file to mistake for a living engine.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import struct
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
from kilocard.launch.model_files import torch_cache

LOG_ROOM_BYTES = 2**16


class Lease:
    """One user's hold on a running engine; the engine is stopped after the last one has let go."""

    def __init__(self, connection: socket.socket, info: dict[str, Any], unread: bytes, joined: bool) -> None:
        self.info = info
        self.joined = joined
        self._connection = connection
        self._unread = unread
        self._owner = os.getpid()

    @property
    def url(self) -> str:
        """Where the engine answers."""
        return str(self.info["url"])

    @property
    def log(self) -> Path:
        """What the engine writes."""
        return Path(self.info["log"])

    @property
    def pid(self) -> int:
        """The engine's process."""
        return int(self.info["engine_pid"])

    def exit_code(self) -> int | None:
        """The engine's exit code once it has died by itself, -9 when its guard was killed too; else null."""
        while b"\n" not in self._unread:
            if not select.select([self._connection], [], [], 0)[0]:
                return None
            if not (data := _received(self._connection)):
                return -signal.SIGKILL
            self._unread += data
        return int(json.loads(self._unread.partition(b"\n")[0]).get("code") or 0)

    def close(self) -> None:
        """Let go without a wait: of one that goes on."""
        self._connection.close()

    def leave(self) -> None:
        """Let go; the last one to do so waits here until nothing of the engine is left."""
        if os.getpid() != self._owner or self._connection.fileno() < 0:
            return
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
            self._connection.settimeout(self.info["drain_s"] + 60)
            while _received(self._connection):
                pass
        self._connection.close()
        strays.sweep()


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


def reserved_port(port: int) -> tuple[socket.socket, socket.socket]:
    """This port, or a free one for 0, held until the engine listens: against strangers, and by name.

    The name is for engines that start at the same time: vLLM binds with SO_REUSEPORT, so that two of them
    would share a port without a word.
    """
    if not 0 <= port <= 65535:
        raise KilocardError(f"port {port} is out of range: take one of 1024 to 65535, or 0 for a free one")
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind(("127.0.0.1", port))
    except OSError as error:
        held.close()
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be had ({error.strerror})"
        raise KilocardError(f"port {port} {why}: name another, or 0 for a free one") from error
    if not (name := claim(f"\0kilocard-port-{held.getsockname()[1]}")):
        held.close()
        raise KilocardError(
            f"port {port} is taken by an engine that starts: name another, or 0 for a free one"
        )
    return held, name


def join(address: str) -> Lease | None:
    """A hold on what runs under a name; None where nothing does, or it is about to end."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        return None
    if _peer_uid(connection) != os.getuid():
        raise KilocardError(f"another user holds the name {address[1:]}: end that user's process first")
    held = _introduced(connection, joined=True)
    if held is None or held.info["state"] == "stopping":
        if held:
            held.leave()
        connection.close()
        return None
    return held


def claim(address: str) -> socket.socket | None:
    """A name that is this process's alone, to be passed on to a guard; None where another has it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return listener


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
    held = _introduced(mine, joined=False)
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


def _introduced(connection: socket.socket, joined: bool) -> Lease | None:
    unread = b""
    connection.settimeout(30)
    while b"\n" not in unread:
        if not (data := _received(connection)):
            connection.close()
            return None
        unread += data
    connection.settimeout(None)
    line, _, rest = unread.partition(b"\n")
    return Lease(connection, json.loads(line), rest, joined)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(4096)
    except OSError:
        return b""


def _peer_uid(connection: socket.socket) -> int:
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "its guard gave no reason"
