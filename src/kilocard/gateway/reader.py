"""The bytes of a client into whole requests: HTTP/1.1, strictly, and all of it bounded."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

import httptools

from kilocard.gateway.message import MOST_HEADERS, WANTED, Message
from kilocard.gateway.refusal import RefusalError

NO_UPGRADE = "no upgrade is spoken here: ask in plain HTTP/1.1"


class Bounds(Protocol):
    """The most that is read, in bytes: of a head, of the bodies of one client, of those of all."""

    most_header_bytes: int
    most_body_bytes: int
    most_held_bytes: int
    held_bytes: int
    """Of bodies that have been read and not been answered, of all clients."""


class Reader:
    """`phase` is `idle`, `head` or `body`, since `since_s`. `take` gets each whole message; `wait` is called
    when a client wants to be told to send its body."""

    __slots__ = (
        *("phase", "since_s", "message", "unanswered_bytes", "_bounds", "_take", "_wait", "_parser"),
        *("_unread_bytes", "_queued_bytes", "_in_head"),
    )

    def __init__(self, bounds: Bounds, take: Callable[[Message], None], wait: Callable[[], None]) -> None:
        self._bounds, self._take, self._wait = bounds, take, wait
        self._parser = httptools.HttpRequestParser(self)
        self.message = Message()
        self.unanswered_bytes = self._unread_bytes = self._queued_bytes = 0
        self._in_head = True
        self.begin("idle")

    def begin(self, phase: str) -> None:
        """What comes next, from now on."""
        self.phase, self.since_s = phase, perf_counter()

    def feed(self, data: bytes) -> None:
        """Parse; RefusalError where it is no request, or too much. What belongs to no body and no whole head
        is counted."""
        self._unread_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise RefusalError(400, NO_UPGRADE) from None
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            raise (
                cause if isinstance(cause, RefusalError) else RefusalError(400, "no HTTP request")
            ) from None
        except httptools.HttpParserError as error:
            raise RefusalError(400, f"not a valid HTTP/1.1 request ({error})") from None
        if self._unread_bytes > self._bounds.most_header_bytes:
            raise self._long_head()

    def begins(self, message: Message) -> None:
        """Its answer begins: another body may be read meanwhile."""
        self._queued_bytes -= message.body_bytes

    def answered(self, message: Message) -> None:
        """Its body is held no longer."""
        self._let_go(message.body_bytes)
        message.body = b""

    def end(self) -> None:
        """Nothing of this client is held any longer."""
        self._let_go(self.unanswered_bytes)

    def on_message_begin(self) -> None:
        """A new request."""
        self.message = Message()
        self.begin("head")

    def on_url(self, url: bytes) -> None:
        """Its target, perhaps in pieces."""
        message = self.message
        message.target += url
        message.header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers."""
        message = self.message
        if not self._in_head:
            raise RefusalError(400, "headers behind a body are not read here: send them in front")
        message.headers += 1
        message.header_bytes += len(name) + len(value)
        if message.headers > MOST_HEADERS:
            raise RefusalError(431, f"more than {MOST_HEADERS} headers: send fewer")
        if message.header_bytes > self._bounds.most_header_bytes:
            raise self._long_head()
        lowered = name.lower()
        if lowered in WANTED:
            message.take_header(lowered, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        message = self.message
        self._in_head = False
        version = self._parser.get_http_version()
        message.check_head(version)
        if self._parser.should_upgrade():
            raise RefusalError(400, NO_UPGRADE)
        message.chunks = version == "1.1"
        self.begin("body")
        if message.expects_a_word:
            self._wait()

    def on_body(self, body: bytes) -> None:
        """A piece of it; those of requests that wait for their turn count too."""
        bounds, size = self._bounds, len(body)
        self._unread_bytes = 0
        self._queued_bytes += size
        self.unanswered_bytes += size
        bounds.held_bytes += size
        if self._queued_bytes > bounds.most_body_bytes:
            raise RefusalError(413, f"bodies of more than {bounds.most_body_bytes} bytes: send less")
        if bounds.held_bytes > bounds.most_held_bytes:
            raise RefusalError(503, "too much is being read: come again later", retry_after_s=1)
        self.message.take_body(body)

    def on_message_complete(self) -> None:
        """Whole."""
        message, parser = self.message, self._parser
        message.method = parser.get_method()
        message.keep_alive = parser.should_keep_alive()
        self._in_head, self._unread_bytes = True, 0
        self.begin("idle")
        self._take(message)

    def _let_go(self, size: int) -> None:
        self.unanswered_bytes -= size
        self._bounds.held_bytes -= size

    def _long_head(self) -> RefusalError:
        return RefusalError(431, f"a head of more than {self._bounds.most_header_bytes} bytes: send less")
