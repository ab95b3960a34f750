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
    """The connections to one engine: idle ones are used again, last first. As many as were lately in use at
    once are held ready besides, so that in a burst nobody has to dial first."""

    def __init__(self, host: str, port: int, connect_s: float) -> None:
        self._host, self._port, self._connect_s = host, port, connect_s
        self._open: set[Line] = set()
        self._idle: list[Line] = []
        self._used = 0.0
        self._dialling: asyncio.Task[None] | None = None

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
        self._idle.append(line)

    def forget(self, line: Line) -> None:
        """It is closed."""
        self._open.discard(line)
        if line in self._idle:
            self._idle.remove(line)

    def tidy(self, now: float, is_chosen: bool) -> None:
        """Close what nobody has used for a while. Where the engine is chosen, open what the next burst may
        need."""
        for line in [line for line in self._idle if _is_old(line, now)]:
            line.abort()
        self._used = self._used * REMEMBERED if is_chosen else 0.0
        lacking = min(round(self._used), MOST_SPARE) - len(self._idle)
        if lacking > 0 and self._dialling is None:
            self._dialling = asyncio.get_running_loop().create_task(self._prepare(lacking))

    def close(self) -> None:
        """All that are idle."""
        if self._dialling is not None:
            self._dialling.cancel()
        for line in list(self._idle):
            line.abort()

    async def _prepare(self, count: int) -> None:
        """Where one cannot be had, the next request will tell why."""
        try:
            for _ in range(count):
                self.keep(await self._connect())
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
    return now - line.used_at >= (IDLE_S if line.served else FRESH_S)
