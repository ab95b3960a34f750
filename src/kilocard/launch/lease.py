"""A hold on what runs under a name: a connection to its guard, which a death closes.

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
from pathlib import Path
from typing import Any

from kilocard.errors import KilocardError
from kilocard.launch import strays


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
    held = introduced(connection, joined=True)
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


def introduced(connection: socket.socket, joined: bool) -> Lease | None:
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
