"""One connection to an engine, with at most one request in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Protocol, cast

import httptools

MOST_HEAD_BYTES = 64 * 2**10
CHUNK_END = b"\n\n\r\n"
LEAST_KNOWN, MOST_KNOWN = 40, 2048
"""Shorter chunks, as [DONE] is one, and longer ones are parsed."""


def _heads() -> list[bytes]:
    """How one whole chunk begins, by the bytes that it has with its frame."""
    heads = [b"no chunk has this length"] * MOST_KNOWN
    for content in range(LEAST_KNOWN, MOST_KNOWN):
        head = b"%x\r\n" % content
        if (whole := len(head) + content + 2) < MOST_KNOWN:
            heads[whole] = head
    return heads


KNOWN_HEADS = _heads()
FRAMES = {b"content-length", b"transfer-encoding"}


class Receiver(Protocol):
    """Who waits for an answer."""

    def on_head(self, status: int, kind: bytes, retry_after: bytes) -> None:
        """The head came."""

    relay: Callable[[bytes], None] | None
    """Where a chunk of whole events goes as it stands, frame and all; None while all has to be parsed."""
    events: int
    """How many have come."""
    content: bytes
    """The last of it."""

    def on_pieces(self, content: bytes, now: float) -> None:
        """More of the body."""

    def on_end(self) -> None:
        """The answer is whole."""

    def on_broken(self, reason: str, unheard: bool) -> None:
        """It will not come; `unheard` where a connection that had lain idle broke before a byte."""


class Keeper(Protocol):
    """Who keeps connections for the next request."""

    def keep(self, line: Line) -> None:
        """It is free."""

    def forget(self, line: Line) -> None:
        """It is closed."""


class Line(asyncio.Protocol):
    """One connection to an engine."""

    __slots__ = (
        *(
            "served",
            "is_spare",
            "used_at",
            "is_kept",
            "_lines",
            "_parser",
            "_receiver",
            "_transport",
            "_pieces",
            "_is_whole",
            "_is_unasked",
        ),
        *("_kind", "_retry_after", "_heard", "_head_bytes", "_keeps_alive"),
        *("_ends_with_connection", "_between_chunks"),
    )

    def __init__(self, lines: Keeper) -> None:
        self._lines = lines
        self._parser = httptools.HttpResponseParser(self)
        self._receiver: Receiver | None = None
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self._is_whole = self._is_unasked = self._heard = False
        self._ends_with_connection = self._between_chunks = False
        self._keeps_alive = True
        self._kind = self._retry_after = b""
        self._head_bytes = self.served = 0
        self.is_kept, self.is_spare = True, False
        self.used_at = perf_counter()

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on it."""
        return self._transport is not None and self._keeps_alive and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The engine hung up, or is gone."""
        self._transport = None
        self._lines.forget(self)
        receiver = self._receiver
        if exc is None and receiver is not None and self._ends_with_connection:
            self._receiver = None
            receiver.on_end()
        else:
            self._fail("the engine closed the connection" if exc is None else f"the connection broke ({exc})")

    def send(self, receiver: Receiver, content: bytes) -> None:
        """One request."""
        self._receiver, self._heard, self._is_whole = receiver, False, False
        self._kind = self._retry_after = b""
        self._head_bytes = 0
        self._ends_with_connection = self._between_chunks = False
        if self._transport is None:
            self._fail("the engine closed the connection")
        else:
            self._transport.write(content)

    def data_received(self, data: bytes) -> None:
        """Parse; what came of the body goes on in one piece, and one whole chunk that ends with a whole event
        as it stands."""
        receiver = self._receiver
        if receiver is None:
            self.abort()
            return
        relay = receiver.relay
        if relay is not None and self._between_chunks:
            size = len(data)
            if (
                size < MOST_KNOWN
                and data.startswith(KNOWN_HEADS[size])
                and data.endswith(CHUNK_END)
                and b'"error"' not in data
            ):
                receiver.events += data.count(b"\n\n")
                receiver.content = data
                relay(data)
                return
        now = perf_counter()
        self._heard = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"the engine's answer is not HTTP/1.1 ({error})")
            self.abort()
            return
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            receiver.on_pieces(pieces[0] if len(pieces) == 1 else b"".join(pieces), now)
        if self._is_whole and self._receiver is receiver:
            self._release(now)
            receiver.on_end()

    def on_message_begin(self) -> None:
        """Until a header says how long it is, an answer ends with its connection. A second one, which nobody
        has asked for, makes the connection useless: the next request would get it."""
        if self._is_whole:
            self._is_unasked = True
        self._ends_with_connection = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of all headers, those that the client gets too."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MOST_HEAD_BYTES:
            raise ValueError(f"a head of more than {MOST_HEAD_BYTES} bytes")
        lowered = name.lower()
        if lowered == b"content-type":
            self._kind = value
        elif lowered == b"retry-after":
            self._retry_after = value
        elif lowered in FRAMES:
            self._ends_with_connection = False

    def on_headers_complete(self) -> None:
        """The status is known."""
        status = self._parser.get_status_code()
        if status < 100:
            raise ValueError(f"a status of {status}")
        if status >= 200 and self._receiver is not None and not self._is_unasked:
            self._receiver.on_head(status, self._kind, self._retry_after)

    def on_chunk_header(self) -> None:
        """Inside of a chunk the parser has to see every byte."""
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        """Between two chunks, whole ones need not be parsed."""
        self._between_chunks = True

    def on_body(self, body: bytes) -> None:
        """A piece, without its chunk's frame."""
        if not self._is_unasked:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Whole, unless it was a mere 100 Continue."""
        if self._parser.get_status_code() >= 200:
            self._is_whole, self._between_chunks = True, False
            self._keeps_alive = self._parser.should_keep_alive()

    def hold(self, held: bool) -> None:
        """Read no more while the client is slow."""
        if self._transport is not None:
            (self._transport.pause_reading if held else self._transport.resume_reading)()

    def abort(self) -> None:
        """Hang up: the engine frees the slot."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        self._lines.forget(self)
        self._fail("the connection was ended")

    def _release(self, now: float) -> None:
        self._receiver = None
        self.served += 1
        self.is_spare = False
        self.used_at = now
        if self.usable and self.is_kept and not self._is_unasked:
            self._lines.keep(self)
        else:
            self.abort()

    def _fail(self, reason: str) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            return
        if self._pieces:
            receiver.on_pieces(b"".join(self._pieces), perf_counter())
            self._pieces = []
        receiver.on_broken(reason, unheard=(self.served > 0 or self.is_spare) and not self._heard)
