"""The connections to one engine: kept between requests, used again, opened before they are needed."""

from __future__ import annotations

import asyncio

from kilocard.gateway.upstream import Line

IDLE_S = 4.0
"""Kept unused for so long: vLLM's server closes after 5 s, and a request that meets the close costs a
retry."""
FRESH_S = 60.0
"""The same for one that has carried nothing yet: servers count from the last answer."""
MOST_SPARE = 64
REMEMBERED = 0.98
"""Of the most that were in use at once, after each look: half is forgotten in half a minute."""


class Lines:
    """The connections to one engine: idle ones are used again, last first. As many as it lately had in use at
    once are held open, and never more, so that in the next burst nobody has to dial first."""

    def __init__(self, host: str, port: int, connect_s: float) -> None:
        self._host, self._port, self._connect_s = host, port, connect_s
        self._open: set[Line] = set()
        self._idle: list[Line] = []
        self._used = 0.0
        self._dialling: asyncio.Task[None] | None = None
        self._is_closed = False

    def idle(self, now: float) -> Line | None:
        """A connection that was used a moment ago, or never."""
        while self._idle:
            line = self._idle.pop()
            if line.usable and not _is_old(line, now):
                self._note_use()
                return line
            line.abort()
        return None

    async def dial(self) -> Line:
        """A new one; raises OSError, TimeoutError."""
        line = await self._connect()
        self._note_use()
        return line

    def keep(self, line: Line) -> None:
        """For the next request."""
        if self._is_closed:
            line.abort()
        else:
            self._idle.append(line)

    def forget(self, line: Line) -> None:
        """It is closed. An engine that closes what it has never been asked on wants no spare ones."""
        self._open.discard(line)
        if line in self._idle:
            self._idle.remove(line)
            if line.is_spare:
                self._used = 0.0

    def tidy(self, now: float, is_chosen: bool) -> None:
        """Close what nobody has used for a while. Where the engine is chosen, open what the next burst may
        need."""
        self._end([line for line in self._idle if _is_old(line, now)])
        self._used = self._used * REMEMBERED if is_chosen else 0.0
        lacking = min(int(self._used) - len(self._open), MOST_SPARE - len(self._idle))
        if lacking > 0 and self._dialling is None and not self._is_closed:
            self._dialling = asyncio.get_running_loop().create_task(self._prepare(lacking))

    def close(self) -> None:
        """All that are idle, and those in use when they come back."""
        self._is_closed = True
        if self._dialling is not None:
            self._dialling.cancel()
        self._end(list(self._idle))

    def _end(self, lines: list[Line]) -> None:
        ended = set(lines)
        self._idle = [line for line in self._idle if line not in ended]
        for line in lines:
            line.abort()

    async def _prepare(self, count: int) -> None:
        """Where one cannot be had, the next request will tell why."""
        try:
            for _ in range(count):
                line = await self._connect()
                line.is_spare = True
                self.keep(line)
        except OSError:
            self._used = 0.0
        finally:
            self._dialling = None

    async def _connect(self) -> Line:
        async with asyncio.timeout(self._connect_s):
            _, line = await asyncio.get_running_loop().create_connection(
                lambda: Line(self), self._host, self._port
            )
        if line.usable:
            self._open.add(line)
        return line

    def _note_use(self) -> None:
        self._used = max(self._used, len(self._open) - len(self._idle))


def _is_old(line: Line, now: float) -> bool:
    return now - line.used_at >= (FRESH_S if line.is_spare else IDLE_S)
