"""The connections to one engine: kept between requests, used again, closed in time."""

from __future__ import annotations

import asyncio

from kilocard.gateway.upstream import Line

IDLE_S = 4.0
"""Kept unused for so long: vLLM's server closes after 5 s, and a request that meets the close costs a
retry."""


class Lines:
    """The connections to one engine: idle ones are used again, last first."""

    def __init__(self, host: str, port: int, connect_s: float) -> None:
        self._host, self._port, self._connect_s = host, port, connect_s
        self._idle: list[Line] = []

    def idle(self, now: float) -> Line | None:
        """A connection that was used a moment ago."""
        while self._idle:
            line = self._idle.pop()
            if line.usable and now - line.used_at < IDLE_S:
                return line
            line.abort()
        return None

    async def dial(self) -> Line:
        """A new one; raises OSError, TimeoutError."""
        async with asyncio.timeout(self._connect_s):
            _, line = await asyncio.get_running_loop().create_connection(
                lambda: Line(self), self._host, self._port
            )
        return line

    def keep(self, line: Line) -> None:
        """For the next request."""
        self._idle.append(line)

    def forget(self, line: Line) -> None:
        """It is closed."""
        if line in self._idle:
            self._idle.remove(line)

    def tidy(self, now: float) -> None:
        """Close what nobody has used for a while."""
        for line in [line for line in self._idle if now - line.used_at >= IDLE_S]:
            line.abort()

    def close(self) -> None:
        """All that are idle."""
        for line in list(self._idle):
            line.abort()
