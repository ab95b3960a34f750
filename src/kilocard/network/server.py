"""The end that listens: it takes, gives and echoes bytes for whoever asks, within limits, until stopped."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable

from kilocard.errors import KilocardError
from kilocard.network.protocol import (
    BLOCK_BYTES,
    VERSION,
    WAIT_S,
    Frame,
    Line,
    PeerError,
    Verb,
    place_of,
)

DEFAULT_PORT = 7790
MOST_CONNECTIONS = 64
CONNECTION_S = 30.0
"""A test takes 10 s; longer nobody is served on one connection."""
MOST_SAID = 100
"""Refusals told one by one: who scans ports fills no log."""
HINT = b"kilocard: this is a network test and answers `kilocard doctor network` alone\n"

Say = Callable[[str], None]


class Listener:
    """A bound port that serves tests, each connection in a thread of its own."""

    def __init__(self, host: str = "127.0.0.1", port: int = DEFAULT_PORT, say: Say = lambda _: None) -> None:
        self._listening = _bound(host, port)
        self._say = say
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._turned = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._said = 0
        self.served = 0
        """Connections that were served to their end."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on."""
        host, port, *_ = self._listening.getsockname()
        return str(host), int(port)

    def serve(self) -> None:
        """Serve until `close()`, or until a signal's handler raises."""
        while True:
            try:
                connection, (host, *_) = self._listening.accept()
            except OSError:
                if self._listening.fileno() < 0 or self._is_shut():
                    return
                time.sleep(0.05)  # out of descriptors, or a peer that was gone at once
                continue
            if self._free.acquire(blocking=False):
                threading.Thread(target=self._hold, args=(connection, str(host)), daemon=True).start()
            elif self._turned.acquire(blocking=False):
                threading.Thread(target=self._turn_away, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def close(self) -> None:
        """Take no more; what is being served ends with the process."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _is_shut(self) -> bool:
        return not self._listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)

    def _hold(self, connection: socket.socket, host: str) -> None:
        try:
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _serve(Line(connection, time.monotonic() + CONNECTION_S))
            self.served += 1
        except PeerError as error:
            self._refuse(f"{host} was let go: it {error}")
        except OSError:
            pass
        finally:
            self._free.release()

    def _turn_away(self, connection: socket.socket) -> None:
        """Say so once it has asked: closed upon a request unread, it would lose the word. Its place is free
        before that: who hears the word may come again at once."""
        with contextlib.suppress(PeerError, OSError), connection:
            line = Line(connection, time.monotonic() + WAIT_S)
            try:
                asked = line.receive_frame()
            finally:
                self._turned.release()
            if asked:
                line.send(Frame(Verb.BUSY).packed())

    def _refuse(self, line: str) -> None:
        self._said += 1
        if self._said <= MOST_SAID:
            self._say(line)


def _bound(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65_535:
        raise KilocardError(f"port {port} is out of range: give 0 (any free one) to 65535")
    if not host:
        raise KilocardError("no host to listen on: give an address, or 0.0.0.0 for all")
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(place[:2], family=family, backlog=MOST_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        raise KilocardError(
            f"cannot listen on {place_of(host, port)} ({_reason(error)}): give another --host or --port"
        ) from error


def _reason(error: OSError | UnicodeError) -> str:
    """Why, without the address that `create_server` adds in brackets."""
    reason = getattr(error, "strerror", None) or str(error)
    return reason.partition(" (while attempting")[0].lower()


def _serve(line: Line) -> None:
    """Requests one after another, until the other end is done."""
    buffer = memoryview(bytearray(BLOCK_BYTES))
    block = memoryview(os.urandom(BLOCK_BYTES))
    while (asked := _asked(line)) is not None:
        if asked.version != VERSION or not asked.is_within_limits:
            line.send(Frame(Verb.REFUSED).packed())
            raise PeerError(f"asked for what is not done here: {asked}")
        line.send(Frame(Verb.OK).packed())
        if asked.verb == Verb.ECHO:
            _echo(line, asked, buffer[: asked.size])
        elif asked.verb == Verb.TAKE:
            _take(line, asked, buffer)
        else:
            give(line, asked.count * asked.size, block)


def _asked(line: Line) -> Frame | None:
    try:
        return line.receive_frame()
    except PeerError:
        with contextlib.suppress(PeerError):
            line.send(HINT)
        raise


def _echo(line: Line, asked: Frame, buffer: memoryview) -> None:
    for _ in range(asked.count):
        line.receive_into(buffer, asked.size)
        line.send(buffer)


def _take(line: Line, asked: Frame, buffer: memoryview) -> None:
    for number in range(asked.count):
        line.receive_into(buffer, asked.size)
        line.send(Frame(Verb.OK, number + 1, asked.size).packed())


def give(line: Line, size: int, block: memoryview) -> None:
    """Send `size` bytes, of a block over and over."""
    for start in range(0, size, len(block)):
        line.send(block[: min(len(block), size - start)])
