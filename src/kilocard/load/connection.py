"""One keep-alive HTTP/1.1 connection whose every read is stamped before anybody looks into it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from enum import Enum
from time import perf_counter
from typing import cast

import httptools

from kilocard.workload import Request

STREAM_BYTES = 64 * 2**20
JSON_BYTES = 8 * 2**20
"""The longest answers that are kept, as a stream and as anything else."""


class End(Enum):
    """How an exchange ended on the wire; what it meant is read from its bytes later."""

    OPEN = "open"
    COMPLETE = "complete"
    UNREACHABLE = "unreachable"
    CUT = "cut"
    TIMEOUT = "timeout"
    GARBLED = "garbled"
    CANCELLED = "cancelled"
    CLIENT_FAULT = "client fault"


@dataclass(slots=True)
class Exchange:
    """One request and the reads of its answer, each with its time on the `perf_counter` clock."""

    request: Request
    payload: bytes = b""
    due: float | None = None
    """When an open loop wanted it sent."""
    begun: float | None = None
    """When the client turned to it; a connection may have to be made before it is sent."""
    sent: float | None = None
    reads: list[tuple[float, bytes]] = field(default_factory=list)
    end: End = End.OPEN
    ended: float | None = None
    detail: str = ""
    retries: int = 0
    """Sent anew because a connection that had served others was found closed."""

    @property
    def unheard(self) -> bool:
        """Whether the connection broke before any byte of an answer."""
        return self.end is End.CUT and not self.reads

    def reopen(self) -> None:
        """Make it anew: the time of the first try stands."""
        self.end, self.detail, self.ended = End.OPEN, "", None
        self.retries += 1

    def finish(self, end: End, detail: str = "") -> None:
        """Close the exchange once; the first reason stands."""
        if self.end is End.OPEN:
            self.end, self.detail, self.ended = end, detail, perf_counter()


class Connection(asyncio.Protocol):
    """Sends one request at a time and keeps (time, bytes) of all that comes back.

    Only the end of the message is looked for while requests run; `kilocard.load.stream` parses afterwards.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._descriptor: int | None = None
        self._exchange: Exchange | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._keep_alive = True
        self._received, self._limit = 0, JSON_BYTES
        self.served = 0
        self.last_used = perf_counter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the descriptor of a plain socket: a write to it is not put off to the end of a loop's turn."""
        self._transport = cast(asyncio.Transport, transport)
        plain = transport.get_extra_info("ssl_object") is None
        self._descriptor = transport.get_extra_info("socket").fileno() if plain else None

    def send(self, exchange: Exchange) -> asyncio.Future[None]:
        """Stamp, write, and return what resolves when the exchange has ended, however it did."""
        self._exchange = exchange
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        self._received, self._limit = 0, JSON_BYTES
        if self.usable:
            if not exchange.retries:
                exchange.sent = perf_counter()
            self._write(exchange.payload)
        else:
            self._end(End.CUT, "the connection was closed before the request was sent")
        return waiter

    def _write(self, payload: bytes) -> None:
        assert self._transport is not None
        written = 0
        if self._descriptor is not None and not self._transport.get_write_buffer_size():
            try:
                written = os.write(self._descriptor, payload)
            except OSError:
                written = 0
        if written < len(payload):
            self._transport.write(payload[written:])

    def data_received(self, data: bytes) -> None:
        """Stamp first."""
        now = perf_counter()
        exchange = self._exchange
        if exchange is None:
            self.abort()
            return
        exchange.reads.append((now, data))
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._refuse(f"the answer is not HTTP/1.1 ({error})")
        except httptools.HttpParserUpgrade:
            self._refuse("the answer leaves HTTP/1.1 for another protocol")
        self._received += len(data)
        if self._received > self._limit:
            self._refuse(f"the answer is longer than {self._limit // 2**20} MiB")

    def _refuse(self, reason: str) -> None:
        self._end(End.GARBLED, reason)
        self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser: a stream may be longer than other answers."""
        if name.lower() == b"content-type" and b"text/event-stream" in value.lower():
            self._limit = STREAM_BYTES

    def on_message_complete(self) -> None:
        """Called by the parser at the end of a response."""
        if self._parser.get_status_code() < 200:
            return
        self._keep_alive = self._parser.should_keep_alive()
        self._end(End.COMPLETE)
        if not self._keep_alive:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cut: whether the stream had said its last word is read from the bytes."""
        self._transport = None
        self._end(End.CUT, _cause(exc))

    def expire(self, reason: str) -> None:
        """End the running exchange as timed out and hang up, which frees the engine's slot."""
        self._end(End.TIMEOUT, reason)
        self.abort()

    def abort(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on it."""
        return self._transport is not None and not self._transport.is_closing() and self._keep_alive

    @property
    def exchange(self) -> Exchange | None:
        """What is in flight."""
        return self._exchange

    def _end(self, end: End, detail: str = "") -> None:
        exchange, waiter = self._exchange, self._waiter
        self._exchange = self._waiter = None
        if exchange is None or waiter is None:
            return
        exchange.finish(end, detail)
        self.served += 1
        self.last_used = exchange.ended or self.last_used
        if not waiter.done():
            waiter.set_result(None)


def _cause(error: Exception | None) -> str:
    if error is None:
        return "the engine closed the connection"
    return f"the connection broke ({(error.strerror if isinstance(error, OSError) else None) or error})"
