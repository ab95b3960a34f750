"""One client's connection: HTTP/1.1 as vLLM's server speaks it, one request answered after another."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections import deque
from time import perf_counter
from typing import Protocol, cast

import httptools

from kilocard.emulator.errors import ApiError
from kilocard.emulator.frames import STREAM_HEAD, head_of
from kilocard.emulator.message import Message
from kilocard.emulator.stream import Stream

HEADER_LIMIT = 64 * 2**10
BODY_LIMIT = 32 * 2**20
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Site(Protocol):
    """What answers the requests of a port."""

    connections: set[Connection]

    def serve(self, line: Connection, message: Message) -> Stream | None:
        """Answer at once, or begin a stream; ApiError is a refusal."""

    def hang_up(self, stream: Stream) -> None:
        """The client of a stream is gone."""


class Connection(asyncio.Protocol):
    """Parses requests, and writes answers without waiting for the end of the loop's turn."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._parser = httptools.HttpRequestParser(self)
        self._message = Message()
        self._queue: deque[Message] = deque()
        self._current: Message | None = None
        self._stream: Stream | None = None
        self._is_refused = False
        self._awaits_rest = True
        self._read_at = self.last_used = perf_counter()

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered."""
        return self._current is not None

    @property
    def is_idle(self) -> bool:
        """Whether all that came was answered; of a new connection nothing has come yet."""
        return not (self.is_answering or self._awaits_rest)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the descriptor, for writes that are not put off."""
        self._transport = cast(asyncio.Transport, transport)
        self._descriptor = transport.get_extra_info("socket").fileno()
        self._site.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """A client that hangs up frees its slot."""
        self._site.connections.discard(self)
        self._queue.clear()
        stream, self._stream = self._stream, None
        if stream is not None:
            self._site.hang_up(stream)

    def data_received(self, data: bytes) -> None:
        """Stamp, then parse."""
        if self._is_refused:
            return
        self._read_at = self.last_used = perf_counter()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # as the real one: answered, and HTTP/1.1 goes on
            self._parser = httptools.HttpRequestParser(self)
        except httptools.HttpParserError:
            self._refuse(ApiError(400, "Invalid HTTP request received."))
        if self._message.fault is not None:
            self._refuse(self._message.fault)

    def on_message_begin(self) -> None:
        """A new request."""
        self._message = Message()
        self._awaits_rest = True

    def on_url(self, url: bytes) -> None:
        """Its target, perhaps in pieces."""
        self._message.url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of all headers, those that matter here."""
        self._count_head(len(name) + len(value))
        lowered = name.lower()
        if lowered == b"content-type":
            self._message.content_type = value.decode("latin-1").lower().partition(";")[0].strip()
        elif lowered == b"x-request-id":
            self._message.request_id = value.decode("latin-1")
        elif lowered == b"expect" and value.lower() == b"100-continue":
            self.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        """A piece of it."""
        message = self._message
        message.body_bytes += len(body)
        if message.body_bytes <= BODY_LIMIT:
            message.body.append(body)
        else:
            message.fault = ApiError(413, f"The request's body is longer than {BODY_LIMIT} bytes.")

    def on_message_complete(self) -> None:
        """Answer it, or let it wait until the one before it is answered."""
        message = self._message
        self._awaits_rest = False
        if message.fault is not None:
            self._refuse(message.fault)
        if self._is_refused:
            return
        message.read_at = self._read_at
        message.method = self._parser.get_method().decode("latin-1")
        message.keep_alive = self._parser.should_keep_alive()
        self._message = Message()
        if self._current is None:
            self._answer(message)
        else:
            self._queue.append(message)
            self._transport.pause_reading()

    def begin_stream(self) -> None:
        """The head of a stream, at once as the real one sends it."""
        closing = b"" if self._keeps_alive else b"connection: close\r\n"
        self.write(STREAM_HEAD + closing + b"\r\n")

    def respond(
        self, content: bytes, status: int = 200, kind: str = "application/json", extra: str = ""
    ) -> None:
        """A whole answer."""
        closing = "" if self._keeps_alive else "connection: close\r\n"
        head = head_of(status, len(content), kind, extra + closing)
        bodiless = self._current is not None and self._current.method == "HEAD"
        self.write(head if bodiless else head + content)
        self.answered()

    def write(self, content: bytes) -> None:
        """To the socket at once: the event loop would put it off to the end of its turn."""
        written = 0
        if self._transport.is_closing():
            return
        if not self._transport.get_write_buffer_size():
            try:
                written = os.write(self._descriptor, content)
            except OSError:
                written = 0
        if written < len(content):
            self._transport.write(content[written:])

    def answered(self) -> None:
        """The answer is whole: on to the next request, or the end."""
        keeps_alive = self._keeps_alive
        self._current = self._stream = None
        self.last_used = perf_counter()
        if not keeps_alive:
            self._transport.close()
        elif self._queue:
            asyncio.get_running_loop().call_soon(self._next)

    def close(self) -> None:
        """Once what was written has left."""
        self._transport.close()

    def reset(self) -> None:
        """As a machine that dies does."""
        linger = struct.pack("ii", 1, 0)
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._transport.abort()

    @property
    def _keeps_alive(self) -> bool:
        return self._current is None or self._current.keep_alive

    def _next(self) -> None:
        if self._queue and self._current is None:
            message = self._queue.popleft()
            if not self._queue:
                self._transport.resume_reading()
            self._answer(message)

    def _answer(self, message: Message) -> None:
        self._current = message
        try:
            self._stream = self._site.serve(self, message)
        except ApiError as error:
            self.respond(error.body, error.status, extra=error.headers)
        except Exception as error:  # as the real one does: a fault of the server is the client's 500
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        about = {"message": "an answer failed", "exception": error, "transport": self._transport}
        asyncio.get_running_loop().call_exception_handler(about)
        self.respond(ApiError(500, f"Internal server error ({type(error).__name__})").body, 500)

    def _count_head(self, length: int) -> None:
        self._message.header_bytes += length
        if self._message.header_bytes > HEADER_LIMIT:
            self._message.fault = ApiError(431, f"The request's head is longer than {HEADER_LIMIT} bytes.")

    def _refuse(self, error: ApiError) -> None:
        """Answer, and read no more: closing at once, with bytes unread, could take the answer back."""
        if self._current is not None:
            self._transport.close()
        elif not (self._is_refused or self._transport.is_closing()):
            self._is_refused = True
            self._awaits_rest = False
            head = head_of(error.status, len(error.body), "application/json", "connection: close\r\n")
            self.write(head + error.body)
            self._transport.write_eof()
