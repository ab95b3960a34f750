"""One try of a request at one engine: its connection, its counts in the pool's table, its answer.

Whatever happens, what was counted when it was sent is taken off when it closes, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from errno import EMFILE, ENFILE
from time import perf_counter

from kilocard.gateway import events
from kilocard.gateway.caller import Caller
from kilocard.gateway.member import Member
from kilocard.gateway.pool import Pool
from kilocard.gateway.upstream import Line
from kilocard.routing.health import Ending, ending_of

MOST_ANSWER_BYTES = 64 * 2**20
"""Of an answer that is no stream: those of embeddings are the longest."""
MOST_TAIL_BYTES = 4096
OWN_LIMITS = {EMFILE, ENFILE}
"""Faults that are no engine's."""


class Attempt:
    """Made when a replica has been chosen."""

    __slots__ = (
        *("pool", "member", "sent_s", "first_s", "last_s", "events", "status", "kind", "retry_after"),
        *("content", "usage", "is_stream", "has_opened", "is_over", "relay"),
        *("_call", "_front", "_line", "_dialling", "_uncached", "_left", "_rest", "_parts", "_part_bytes"),
        *("_noted_s", "_noted_events", "_only_opens", "_is_resent", "_before", "_last", "_mark"),
    )

    def __init__(self, call: Caller, pool: Pool, member: Member) -> None:
        self.pool, self.member, self._call = pool, member, call
        self.sent_s, self.first_s, self.last_s = perf_counter(), 0.0, 0.0
        self.events = self.status = self._noted_events = self._part_bytes = 0
        self.kind = self.retry_after = self.content = self._rest = self._before = self._last = b""
        self.usage: events.Usage | None = None
        self.is_stream = self.has_opened = self.is_over = self._only_opens = self._is_resent = False
        self.relay: Callable[[bytes], None] | None = None
        self._front = call.front
        self._line: Line | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._parts: list[bytes] = []
        self._noted_s = 0.0
        self._uncached = pool.sent(member, call.arrival, self.sent_s)
        self._mark = pool.mark(member, self.sent_s)
        self._left = float(call.arrival.expected_tokens)

    @property
    def tokens(self) -> int:
        """Written so far: as the engine says, or else an event each but for the last, which is [DONE], and
        for a first that only says who speaks."""
        told = self.usage.completion_tokens if self.usage else None
        return max(0, self.events - 1 - self._only_opens) if told is None else told

    @property
    def has_said_all(self) -> bool:
        """Whether a stream has come to its [DONE]: what happens after that loses nothing."""
        return self.is_stream and events.DONE in self.content

    def take_last(self) -> bytes:
        """What was held back, to go out with the answer's end: events that end with [DONE]."""
        if not self._last:
            return b""
        last, self._last = self._last, b""
        return last

    def start(self) -> None:
        """On an idle connection if there is one."""
        line = self.member.lines.idle(self.sent_s)
        if line is None:
            self._dialling = asyncio.get_running_loop().create_task(self._dial())
        else:
            self._send(line)

    def close(self) -> None:
        """It is over; where the engine still works on it, it is told by the end of the connection."""
        if self.is_over:
            return
        self.is_over = True
        self.pool.ended(self.member, self._uncached, self._left, perf_counter())
        dialling, self._dialling = self._dialling, None
        line, self._line = self._line, None
        if dialling is not None:
            dialling.cancel()
        if line is not None:
            line.abort()

    def hold(self, held: bool) -> None:
        """The client is slow: so shall the engine be."""
        if self._line is not None:
            self._line.hold(held)

    def note_progress(self, now: float) -> None:
        """Tell the pool how fast tokens came since it was told last. No clock is read for each of them."""
        tokens = self.events - self._noted_events
        if self._noted_events == 0 or tokens < 1:
            return
        self.last_s = self.member.heard_s = now
        expected = min(self._left, float(tokens))
        self._left -= expected
        each = tokens // self._call.answers
        self.pool.progressed(self.member, each, now - self._noted_s, expected, self._mark, now)
        self._noted_events, self._noted_s = self.events, now
        self._mark = self.pool.mark(self.member, now)

    def on_head(self, status: int, kind: bytes, retry_after: bytes) -> None:
        """What kind of answer it will be."""
        self.status, self.kind, self.retry_after = status, kind, retry_after
        self.is_stream = status == 200 and kind.startswith(b"text/event-stream")

    def on_pieces(self, content: bytes, now: float) -> None:
        """Whole events go on at once; anything else is collected."""
        self.member.heard_s = now
        if not self.is_stream:
            self._collect(content)
            return
        if self._rest or content[-2:] != b"\n\n":
            content, self._rest = events.split(self._rest + content)
            self.relay = None
            if not content:
                return
        if b'"error"' in content and (told := events.error_in(content)):
            self._end_in_error(content, told[0], told[1])
            return
        self.events += content.count(b"\n\n") or events.count(content)
        self.last_s = now
        self._before, self.content = self.content, content
        if not self.has_opened:
            self._open(content, now)
        else:
            if self._noted_events == 0:
                self._begin(now)
            if self._last or content.endswith(events.DONE):
                self._last += content
            else:
                self._front.piece(content)
        self.relay = self._front.chunk if self.first_s > 0 and not self._rest and not self._last else None

    def on_end(self) -> None:
        """The connection is free again."""
        self._line = None
        if self.is_over:
            return
        if not self.is_stream:
            self.content = b"".join(self._parts)
            self.usage = events.usage_in(self.content[-MOST_TAIL_BYTES:]) if self.status == 200 else None
            self._note_whole()
            self._call.answered(self)
        elif self.events == 0:
            self._call.failed(self, "the engine's stream was empty", 502, Ending.CUT)
        elif self._call.is_completion and not (self._last or events.has_last_word(self.content)):
            self._call.failed(self, "the engine ended its stream without a last word", 502, Ending.CUT)
        else:
            self._end()

    def on_broken(self, reason: str, unheard: bool) -> None:
        """The connection is gone; one that the engine had closed as idle costs nothing but a new one."""
        self._line = None
        if self.is_over:
            return
        if self.has_said_all:
            self._end()
        elif unheard and not self._is_resent:
            self._is_resent = True
            self._dialling = asyncio.get_running_loop().create_task(self._dial())
        else:
            self._call.failed(self, reason, 502, Ending.CUT)

    async def _dial(self) -> None:
        try:
            line = await self.member.lines.dial()
        except TimeoutError:
            self._not_reached("no connection in time", 504, Ending.HANG)
        except OSError as error:
            if error.errno in OWN_LIMITS:
                self._not_reached("this gateway may open no more files", 503, Ending.CLIENT)
                return
            refused = Ending.REFUSED if isinstance(error, ConnectionRefusedError) else Ending.CUT
            self._not_reached(error.strerror or str(error), 502, refused)
        else:
            self._dialling = None
            if self.is_over:
                line.abort()
            else:
                self._send(line)

    def _not_reached(self, reason: str, status: int, ending: Ending) -> None:
        self._dialling = None
        if not self.is_over:
            self._call.failed(self, f"the engine was not reached ({reason})", status, ending)

    def _send(self, line: Line) -> None:
        self._line = line
        line.send(self, self._call.request_for(self.member))

    def _open(self, content: bytes, now: float) -> None:
        """The first events; where they only say who speaks, the first token is still to come."""
        self.has_opened = True
        self._only_opens = self.events == 1 and events.only_opens(content)
        if not self._only_opens:
            self._begin(now)
        self._call.opened(content)

    def _begin(self, now: float) -> None:
        """The first token."""
        self.first_s = self._noted_s = now
        self._noted_events = self.events
        self.pool.began(self.member, self._uncached, now - self.sent_s, self._mark)
        self._uncached, self._mark = 0, self.pool.mark(self.member, now)

    def _end(self) -> None:
        """A stream is whole. What its engine counted may stand in the last events or in those before."""
        self.note_progress(perf_counter())
        for content in (self.content, self._before):
            if self.usage is None and b'"usage"' in content:
                self.usage = events.usage_in(content)
        self._call.answered(self)

    def _end_in_error(self, content: bytes, place: int, told: dict[str, object]) -> None:
        """Events before an error still go on; a [DONE] behind it would make it look like an end."""
        if place and self.has_opened:
            self._front.piece(content[:place])
        code = told.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        self._call.failed(
            self, f"the engine says: {told.get('message', '')}", status, ending_of(status, True)
        )

    def _collect(self, content: bytes) -> None:
        self._parts.append(content)
        self._part_bytes += len(content)
        if self._part_bytes > MOST_ANSWER_BYTES:
            reason = f"the engine's answer is longer than {MOST_ANSWER_BYTES} bytes"
            self._call.failed(self, reason, 502, Ending.CLIENT)

    def _note_whole(self) -> None:
        """Of an answer that came at once only the mean pace is known."""
        tokens = (self.usage.completion_tokens if self.usage else None) or 0
        self.first_s = self.last_s = perf_counter()
        if tokens > 1:
            expected = min(self._left, float(tokens))
            self._left -= expected
            read, requests_s = self._mark
            before = read - self._uncached, requests_s
            seconds = self.last_s - self.sent_s
            each = tokens // self._call.answers
            self.pool.progressed(self.member, each, seconds, expected, before, self.last_s)
