"""Connections to one target, kept alive and watched for time-outs."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass
from time import perf_counter
from typing import Self

from kilocard.errors import KilocardError
from kilocard.load.connection import Connection, End, Exchange
from kilocard.load.target import Target

MAX_IDLE_S = 1.0
"""A connection idle for longer is not used again: servers close idle ones, some after 2 s, and a request
that meets such a close would look lost."""

CONNECT_TIMEOUT_S = 10.0
CLIENT_FAULTS = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS)


def is_clients_fault(error: Exception) -> bool:
    """Whether it was for want of this machine's files or ports; of several causes, the text names each."""
    return any(f"[Errno {number}]" in str(error) for number in CLIENT_FAULTS)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: `total_s` for a whole request, `idle_s` without a byte (a hung engine)."""

    total_s: float = 600.0
    idle_s: float = 120.0

    def __post_init__(self) -> None:
        for name, value in (("timeout", self.total_s), ("idle timeout", self.idle_s)):
            if not value > 0:
                raise KilocardError(f"a {name} of {value} s is not above 0")

    @property
    def tick_s(self) -> float:
        """How often to look: a time-out is noticed at most this late."""
        return min(0.1, max(0.01, min(self.total_s, self.idle_s) / 10))


class Client:
    """Sends exchanges; `send` returns when one has ended, well or not, and raises only when cancelled."""

    def __init__(self, target: Target, timeouts: Timeouts) -> None:
        self._target = target
        self._timeouts = timeouts
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watch = asyncio.create_task(self._expire_overdue())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watch:
            self._watch.cancel()
        for connection in [*self._idle, *self._busy]:
            connection.abort()

    async def open(self, count: int) -> None:
        """Have so many connections ready; one that cannot be made is left to the request that needs it."""
        dialled = await asyncio.gather(*(self._dial() for _ in range(count)), return_exceptions=True)
        self._idle += [connection for connection in dialled if isinstance(connection, Connection)]

    async def send(self, exchange: Exchange) -> None:
        """Make one exchange, on an idle connection if there is one."""
        exchange.begun = perf_counter()
        try:
            connection = self._idle_connection() or await self._connect(exchange)
            if connection is None:
                return
            was_used = connection.served > 0
            await self._exchange_on(connection, exchange)
            if was_used and exchange.unheard:
                await self._send_anew(exchange)
        except asyncio.CancelledError:
            exchange.finish(End.CANCELLED, "the run was interrupted")
            raise

    async def _send_anew(self, exchange: Exchange) -> None:
        """Once, on a fresh connection: the server had closed the other one as idle, or is gone."""
        first = exchange.detail
        exchange.reopen()
        connection = await self._connect(exchange, End.CUT, f"{first}; anew: ")
        if connection is not None:
            await self._exchange_on(connection, exchange)

    async def _exchange_on(self, connection: Connection, exchange: Exchange) -> None:
        self._busy.add(connection)
        try:
            await connection.send(exchange)
        except asyncio.CancelledError:
            exchange.finish(End.CANCELLED, "the run was interrupted")
            connection.abort()
            raise
        finally:
            self._busy.discard(connection)
        if connection.usable:
            self._idle.append(connection)

    def _idle_connection(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and perf_counter() - connection.last_used < MAX_IDLE_S:
                return connection
            connection.abort()
        return None

    async def _connect(
        self, exchange: Exchange, refused: End = End.UNREACHABLE, before: str = ""
    ) -> Connection | None:
        """A fresh connection, or None and the exchange ended: as `refused` where nobody takes it."""
        exchange.sent = exchange.sent or perf_counter()
        try:
            return await self._dial()
        except TimeoutError:
            exchange.finish(End.TIMEOUT, f"{before}no connection in time")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            if is_clients_fault(error):
                exchange.finish(End.CLIENT_FAULT, f"{before}this machine can open no connection ({reason})")
            else:
                exchange.finish(refused, before + reason)
        return None

    async def _dial(self) -> Connection:
        async with asyncio.timeout(min(CONNECT_TIMEOUT_S, self._timeouts.total_s)):
            _, connection = await asyncio.get_running_loop().create_connection(
                Connection, self._target.host, self._target.port, ssl=self._target.ssl_context
            )
        return connection

    async def _expire_overdue(self) -> None:
        while True:
            await asyncio.sleep(self._timeouts.tick_s)
            now = perf_counter()
            for connection in list(self._busy):
                exchange = connection.exchange
                if exchange is not None and exchange.sent is not None:
                    self._expire(connection, exchange, exchange.sent, now)

    def _expire(self, connection: Connection, exchange: Exchange, sent: float, now: float) -> None:
        last_byte = exchange.reads[-1][0] if exchange.reads else sent
        if now - sent > self._timeouts.total_s:
            connection.expire(f"not done within {self._timeouts.total_s:g} s")
        elif now - last_byte > self._timeouts.idle_s:
            connection.expire(f"silent for {self._timeouts.idle_s:g} s")
