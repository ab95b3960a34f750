"""One request in service: each token that its engine makes becomes bytes of the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kilocard.emulator.asked import Asked
from kilocard.emulator.errors import DEAD_BODY, ENGINE_DEAD
from kilocard.emulator.frames import DONE, Frames, event, head_of
from kilocard.emulator.prefix import Path
from kilocard.emulator.text import BYTES_A_TOKEN

if TYPE_CHECKING:
    from kilocard.emulator.engine import Engine

NO_ROW = -1


class Line(Protocol):
    """Where an answer's bytes go."""

    def write(self, content: bytes) -> None:
        """At once."""

    def answered(self) -> None:
        """The answer is whole."""


class Stream:
    """A request between its arrival and its last token."""

    __slots__ = (
        *("asked", "path", "row", "arrived_ps", "first_ps", "sent", "open", "fails_at", "_engine", "_frames"),
        *("_line", "_before", "_after", "_plain_end", "_text"),
    )

    def __init__(self, engine: Engine, line: Line, asked: Asked, path: Path, frames: Frames) -> None:
        self.asked, self.path, self.row = asked, path, NO_ROW
        self.arrived_ps = self.first_ps = 0
        self.sent, self.open, self.fails_at = 0, True, 0
        self._engine, self._line, self._frames = engine, line, frames
        self._text, self._plain_end = asked.text, 0
        if asked.stream:
            self._before, self._after = frames.around()
            self._plain_end = min(asked.output_tokens, 1 + len(asked.text) // BYTES_A_TOKEN)

    def fail_midway(self) -> None:
        """Let the stream end half way, with an error event."""
        self.fails_at = 1 + self.asked.output_tokens // 2
        self._plain_end = min(self._plain_end, self.fails_at)

    def token(self) -> None:
        """One more token leaves."""
        sent = self.sent = self.sent + 1
        if 1 < sent < self._plain_end:
            end = BYTES_A_TOKEN * sent
            self._line.write(self._before + self._text[end - BYTES_A_TOKEN : end] + self._after)
        elif self.open:
            self._special(sent)

    def abort(self) -> None:
        """The engine is gone: say so as vLLM does, inside the stream or with a 500."""
        if self.open:
            self.open = False
            whole = head_of(500, len(DEAD_BODY), "application/json") + DEAD_BODY
            self._line.write(event(ENGINE_DEAD) + DONE if self.asked.stream else whole)
            self._line.answered()

    def drop(self) -> None:
        """Nobody listens any more."""
        self.open = False
        self._plain_end = 0

    def _special(self, sent: int) -> None:
        """The first token, the last, and those whose text a stop string cuts."""
        if sent == 1:
            self._engine.begun(self)
        if sent == self.fails_at:
            self._engine.withdraw(self)
            self.abort()
        elif sent == self.asked.output_tokens:
            self._end(sent)
        elif self.asked.stream:
            self._line.write(self._opening(sent) + self._frames.token(self._piece(sent)))

    def _end(self, sent: int) -> None:
        cached = self._engine.cached_tokens(self)
        if self.asked.stream:
            last = self._frames.token(self._piece(sent), last=True)
            self._line.write(self._opening(sent) + last + self._frames.ending(cached))
        else:
            body = self._frames.whole(cached)
            self._line.write(head_of(200, len(body), "application/json") + body)
        self.open = False
        self._engine.ended(self)
        self._line.answered()

    def _opening(self, sent: int) -> bytes:
        return self._frames.role if sent == 1 and self.asked.chat else b""

    def _piece(self, sent: int) -> str:
        end = BYTES_A_TOKEN * sent
        return self._text[end - BYTES_A_TOKEN : end].decode()
