"""How the two ends of the network test talk: frames of 24 bytes, and data of a size that a frame has told."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from enum import IntEnum

MAGIC, VERSION = b"kilocard", 1
FRAME = struct.Struct("!8sBBHIQ")
MOST_ECHO_BYTES = 64 * 1024
MOST_SIZE_BYTES = 2**30
MOST_REQUEST_BYTES = 16 * 2**30
"""What one request may move: 10 s at 10 Gb/s."""
BLOCK_BYTES = 2**20
WAIT_S = 3.0
"""How long either end waits for a frame, or for any data of one."""


class Verb(IntEnum):
    """What a client asks, and what a server answers."""

    ECHO = 1
    """Send back `count` messages of `size` bytes, one at a time."""
    TAKE = 2
    """Take `count` messages of `size` bytes, and answer after each."""
    GIVE = 3
    """Send `count` x `size` bytes."""
    OK = 16
    REFUSED = 17
    BUSY = 18
    """As many connections are served as one listener serves."""


class PeerError(Exception):
    """The other end does not speak this protocol, or no longer speaks at all."""


class SlowError(PeerError):
    """The deadline is over."""


class BusyError(PeerError):
    """The other end serves others."""


class ClosedError(PeerError):
    """The other end closed the connection."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A request or an answer."""

    verb: int
    count: int = 0
    size: int = 0
    version: int = VERSION

    def packed(self) -> bytes:
        """As it goes over the wire."""
        return FRAME.pack(MAGIC, self.version, self.verb, 0, self.count, self.size)

    @property
    def is_within_limits(self) -> bool:
        """Whether a server does what this asks."""
        most = MOST_ECHO_BYTES if self.verb == Verb.ECHO else MOST_SIZE_BYTES
        asked = self.verb in (Verb.ECHO, Verb.TAKE, Verb.GIVE)
        return asked and 0 < self.size <= most and 0 < self.count * self.size <= MOST_REQUEST_BYTES


@dataclass(slots=True)
class Line:
    """A connected socket that waits neither long for a byte nor beyond a deadline (monotonic seconds)."""

    socket: socket.socket
    deadline_s: float

    def send(self, data: bytes | memoryview) -> None:
        """All of it."""
        view = memoryview(data)
        while view:
            self._wait_at_most()
            try:
                view = view[self.socket.send(view) :]
            except OSError as error:
                raise self._ended(error) from error

    def receive_into(self, buffer: memoryview, size: int) -> None:
        """Read `size` bytes and forget them; the buffer may be smaller."""
        while size:
            size -= len(self._received(buffer[: min(size, len(buffer))]))

    def receive_frame(self) -> Frame | None:
        """The next frame; None where the other end is done."""
        data, buffer = b"", memoryview(bytearray(FRAME.size))
        while len(data) < FRAME.size:
            try:
                data += self._received(buffer[len(data) :])
            except ClosedError:
                if data:
                    raise
                return None
            if not data.startswith(MAGIC[: len(data)]):
                raise PeerError(f"speaks something else: it sent {data!r}")
        _, version, verb, _, count, size = FRAME.unpack(data)
        return Frame(verb, count, size, version)

    def _received(self, buffer: memoryview) -> memoryview:
        self._wait_at_most()
        try:
            got = self.socket.recv_into(buffer)
        except OSError as error:
            raise self._ended(error) from error
        if not got:
            raise ClosedError("closed the connection in the middle")
        return buffer[:got]

    def _wait_at_most(self) -> None:
        left = self.deadline_s - time.monotonic()
        if left <= 0:
            raise SlowError("took longer than a test may")
        self.socket.settimeout(min(left, WAIT_S))

    def _ended(self, error: OSError) -> PeerError:
        if not isinstance(error, TimeoutError):
            return PeerError(f"broke off: {(error.strerror or str(error)).lower()}")
        if (self.socket.gettimeout() or 0.0) < WAIT_S:
            return SlowError("took longer than a test may")
        return PeerError(f"was silent for {WAIT_S:g} s")


def place_of(host: str, port: int) -> str:
    """Host and port as they are written; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
