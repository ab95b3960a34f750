"""Server-sent events in the pieces of a body, each with the time of the read that completed it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Event:
    """One event; its name is empty unless the stream gives one."""

    time: float
    data: bytes
    name: bytes = b""


def sse_events(pieces: Iterable[tuple[float, bytes]]) -> Iterator[Event]:
    """Every complete event, without comments and other fields.

    Lines end with CRLF, LF or CR. A last event without its blank line is dropped, as the standard wants:
    https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """
    name, data = b"", list[bytes]()
    for time, line in _lines(pieces):
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"data":
            data.append(value)
        elif key == b"event":
            name = value
        elif not line:
            if data or name == b"error":
                yield Event(time, b"\n".join(data), name)
            name, data = b"", []


@dataclass(slots=True)
class _Splitter:
    """Lines out of pieces that are cut anywhere, also between a CR and its LF."""

    partial: list[bytes] = field(default_factory=list)
    after_cr: bool = False

    def take(self, piece: bytes) -> Iterator[bytes]:
        ended_by_cr = piece.endswith(b"\r")
        if self.after_cr:
            piece = piece.removeprefix(b"\n")
        self.after_cr = ended_by_cr
        *ended, rest = _LINE_END.split(piece)
        for text in ended:
            yield b"".join([*self.partial, text])
            self.partial = []
        self.partial.append(rest)


def _lines(pieces: Iterable[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    splitter, first = _Splitter(), True
    for time, piece in pieces:
        for line in splitter.take(piece) if piece else ():
            yield time, line.removeprefix(BYTE_ORDER_MARK) if first else line
            first = False
