"""One client's connection: what it asks is answered, one request after another."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

from kilocard.gateway.behind import Call, House
from kilocard.gateway.message import Message
from kilocard.gateway.reader import Reader
from kilocard.gateway.refusal import RefusalError, head

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
MOST_PIPELINED = 16
STREAM = b"text/event-stream; charset=utf-8"
CLOSING = b"connection: close\r\n"
LAST_CHUNK = b"0\r\n\r\n"


class Front(asyncio.Protocol):
    """Takes requests and writes answers. A half-closed connection counts as a hang-up: nobody can tell
    them apart before writing."""

    __slots__ = (
        *("peer", "is_refused", "_house", "_reader", "_queue", "_call", "_current", "_transport", "_chunked"),
        "chunk",
    )

    def __init__(self, house: House) -> None:
        self._house = house
        self._reader = Reader(house, self._take, self._go_on)
        self._queue: deque[Message] = deque()
        self._call: Call | None = None
        self._current: Message | None = None
        self._transport: asyncio.Transport | None = None
        self.peer, self.is_refused, self._chunked = "", False, False
        self.chunk: Callable[[bytes], None] = self.write
        """Takes whole events in the frame of a chunk, as the engine sent them."""

    @property
    def reads(self) -> str:
        """What it waits for: `idle` for a request, `head`, `body`, or `closing` for the client to go."""
        return self._reader.phase

    @property
    def waits_since(self) -> float:
        """Since when."""
        return self._reader.since_s

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered."""
        return self._current is not None

    @property
    def is_idle(self) -> bool:
        """Whether it could be closed without a loss."""
        return self.reads == "idle" and not self.is_answering

    @property
    def is_sending(self) -> bool:
        """Whether the client has not yet taken all that was written."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take part, if there is room."""
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if isinstance(name, tuple) else ""
        if not self._house.guests.admit(self):
            self.refuse(RefusalError(503, "too many connections: come again later", retry_after_s=1))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """A client that hangs up ends what was done for it."""
        self._house.guests.leave(self)
        self._queue.clear()
        self._transport, call, self._call = None, self._call, None
        self.chunk = self.write
        if call is not None:
            call.hang_up()
        self._reader.end()

    def eof_received(self) -> bool:
        """No more will come: the transport closes, and with it the call."""
        if self._call is not None:
            self.abort()
        else:
            self._reader.begin("closing")
        return False

    def data_received(self, data: bytes) -> None:
        """Read what it asks."""
        if self.is_refused:
            return
        try:
            self._reader.feed(data)
        except RefusalError as refusal:
            self.refuse(refusal)

    def _take(self, message: Message) -> None:
        """Answer it, or let it wait until the one before it is answered."""
        if self._house.is_draining:
            message.keep_alive = False
        if self._current is None and not self._queue:
            self._answer(message)
        elif len(self._queue) < MOST_PIPELINED:
            self._queue.append(message)
        else:
            raise RefusalError(400, f"more than {MOST_PIPELINED} requests before an answer: wait for one")

    def _go_on(self) -> None:
        """The client waits to be told so before it sends a body."""
        if not self.is_answering:
            self.write(CONTINUE)

    def begin_stream(self, content: bytes, more: bytes) -> None:
        """The head of an answer whose length nobody knows, and its first events."""
        assert self._current is not None
        self._chunked = self._current.chunks
        if self._chunked and self._transport is not None:
            self.chunk = self._transport.write
        else:
            self.chunk = self._unframed
        if self._chunked:
            more += b"transfer-encoding: chunked\r\n"
        else:
            self._current.keep_alive = False
        if not self._current.keep_alive:
            more += CLOSING
        self.write(head(200, None, STREAM, more) + self._framed(content))

    def piece(self, content: bytes) -> None:
        """Whole events of a stream."""
        self.write(self._framed(content))

    def _framed(self, content: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(content), content) if self._chunked else content

    def _unframed(self, framed: bytes) -> None:
        """For a client that knows no chunks."""
        self.write(framed[framed.index(b"\r\n") + 2 : -2])

    def end_stream(self, content: bytes) -> None:
        """The last events, if any: the stream is whole, or they tell why it is not."""
        last = self._framed(content) if content else b""
        self.write(last + LAST_CHUNK if self._chunked else last)
        self._answered()

    def respond(
        self, status: int, content: bytes, more: bytes = b"", kind: bytes = b"application/json"
    ) -> None:
        """A whole answer."""
        current = self._current
        if current is None or not current.keep_alive:
            more += CLOSING
        top = head(status, len(content), kind, more)
        self.write(top if current is not None and current.method == b"HEAD" else top + content)
        self._answered()

    def refuse(self, refusal: RefusalError) -> None:
        """Answer what is no request, and read no more."""
        if self.is_refused:
            return
        self.is_refused = True
        self._house.note_refusal(self, refusal, self._reader.message)
        if self._current is None:
            content = refusal.content
            more = refusal.headers + CLOSING
            self.write(head(refusal.status, len(content), more=more) + content)
        self._reader.begin("closing")
        if self._transport is not None and not self.is_answering:
            self._linger()

    def write(self, content: bytes) -> None:
        """To the client, if it is still there."""
        if self._transport is not None:
            self._transport.write(content)

    def pause_writing(self) -> None:
        """The client is slow: it gets no more of its stream, or may ask no more."""
        if self._call is not None:
            self._call.hold(True)
        elif self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It has caught up."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        if self._call is not None:
            self._call.hold(False)

    def too_slow(self) -> None:
        """Its request does not come to an end."""
        if self.is_answering:
            self.abort()
        else:
            self.refuse(RefusalError(408, f"the {self.reads} of the request took too long: send it faster"))

    def close(self) -> None:
        """Once what was written has left."""
        self._reader.begin("closing")
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Now."""
        if self._transport is not None:
            self._transport.abort()

    def _complain(self, error: Exception) -> None:
        """A fault of ours is told, and costs nobody else an answer."""
        about = {"message": "a request failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(about)
        refusal = RefusalError(500, f"the gateway failed ({type(error).__name__}): its log says more")
        self.respond(refusal.status, refusal.content)

    def _next(self) -> None:
        """Answer requests until one takes its time."""
        while self._queue and self._current is None and self._transport is not None:
            self._answer(self._queue.popleft())

    def _answer(self, message: Message) -> None:
        self._current = message
        self._reader.begins(message)
        try:
            call = self._house.answer(self, message)
        except RefusalError as refusal:
            if not refusal.is_noted:
                self._house.note_refusal(self, refusal, message)
            refusal.request_id = message.id_or(refusal.request_id)
            self.respond(refusal.status, refusal.content, refusal.headers)
        except Exception as error:
            self._complain(error)
        else:
            if self._current is message:
                self._call = call

    def _answered(self) -> None:
        message, self._current, self._call = self._current, None, None
        reader = self._reader
        if message is not None:
            reader.answered(message)
        if reader.phase == "idle":
            reader.begin("idle")
        if self.is_refused or (message is not None and not message.keep_alive):
            self._linger()
        elif self._queue:
            asyncio.get_running_loop().call_soon(self._next)

    def _linger(self) -> None:
        """Say that nothing more will come, but let the client read it: closing with bytes unread could take
        the answer back. The house closes what does not close itself."""
        self.is_refused = True
        self._queue.clear()
        self._reader.begin("closing")
        if self._transport is not None and not self._transport.is_closing():
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:
                self._transport.close()
