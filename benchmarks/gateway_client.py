"""The client of the comparison of gateways: stamps every read, parses afterwards, sends nothing twice."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from time import perf_counter
from typing import Any

import httptools

MOST_IDLE_S = 1.0
"""A connection idle for longer is not used again, for a server may be about to close it."""
TIMEOUT_S = 60.0


@dataclass(slots=True)
class Ask:
    """One request to make. Seconds count from the start of the run."""

    request_id: str
    messages: list[dict[str, str]]
    tokens: int
    """What the engine will answer; it is told by the last word of the prompt alone."""
    due_s: float | None = None
    session: str = ""
    is_streamed: bool = True
    most_tokens: int = 512
    model: str = "fake"
    priority: str = ""

    def payload(self, host: str) -> bytes:
        """The whole HTTP request."""
        body = {
            "model": self.model,
            "messages": self.messages,
            "max_tokens": self.most_tokens,
            "stream": self.is_streamed,
            "user": self.request_id,
        }
        if self.is_streamed:
            body["stream_options"] = {"include_usage": True}
        content = json.dumps(body, separators=(",", ":")).encode()
        rank = f"X-Priority: {self.priority}\r\n" if self.priority else ""
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"X-Request-Id: {self.request_id}\r\nX-Session-Id: {self.session or self.request_id}\r\n"
            f"{rank}Content-Length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content


@dataclass(slots=True)
class Exchange:
    """What came back, each read with its time on the clock of `time.perf_counter`."""

    ask: Ask
    begun: float = 0.0
    reads: list[tuple[float, bytes]] = field(default_factory=list)
    end: str = ""
    """`complete`, `unreachable`, `cut` or `timeout`."""


class Line(asyncio.Protocol):
    """A keep-alive connection."""

    def __init__(self) -> None:
        self._exchange: Exchange | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self.is_usable, self.last_used = True, perf_counter()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._descriptor = transport.get_extra_info("socket").fileno()

    def send(self, exchange: Exchange, payload: bytes) -> asyncio.Future[None]:
        """Write at once; what is returned resolves at the end, however it comes."""
        self._exchange, self._waiter = exchange, asyncio.get_running_loop().create_future()
        waiter = self._waiter
        try:
            written = os.write(self._descriptor, payload) if self.is_usable else 0
        except OSError:
            written = 0
        if not self.is_usable:
            self._finish("cut")
        elif written < len(payload):
            self._transport.write(payload[written:])
        return waiter

    def data_received(self, data: bytes) -> None:
        now = perf_counter()
        if self._exchange is None:
            self.close()
            return
        self._exchange.reads.append((now, data))
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._finish("cut")
            self.close()

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            return
        self.is_usable = self._parser.should_keep_alive()
        self._finish("complete")

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        self._finish("cut")

    def expire(self) -> None:
        """Hang up on a request that takes too long."""
        self._finish("timeout")
        self.close()

    def close(self) -> None:
        self.is_usable = False
        self._transport.abort()

    def _finish(self, end: str) -> None:
        exchange, waiter = self._exchange, self._waiter
        self._exchange = self._waiter = None
        self.last_used = perf_counter()
        if exchange is not None and waiter is not None and not waiter.done():
            exchange.end = end
            waiter.set_result(None)


class Client:
    """Sends exchanges to one port, or to several in turn."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._idle: dict[int, list[Line]] = {port: [] for port in ports}
        self._sent = 0
        self.exchanges: list[Exchange] = []

    async def open(self, count: int) -> None:
        """Have so many connections ready to each port."""
        for port in self._ports:
            self._idle[port] += await asyncio.gather(*(self._dial(port) for _ in range(count)))

    async def send(self, ask: Ask) -> Exchange:
        """Make one exchange; never raises for what the other side does."""
        port = self._ports[self._sent % len(self._ports)]
        self._sent += 1
        payload = ask.payload(f"127.0.0.1:{port}")
        exchange = Exchange(ask, perf_counter())
        self.exchanges.append(exchange)
        line = self._take(port)
        if line is None:
            try:
                line = await self._dial(port)
            except OSError:
                exchange.end = "unreachable"
                return exchange
        await self._wait(line, line.send(exchange, payload))
        if line.is_usable:
            self._idle[port].append(line)
        return exchange

    def close(self) -> None:
        """All that is idle."""
        for lines in self._idle.values():
            for line in lines:
                line.close()

    async def _wait(self, line: Line, waiter: asyncio.Future[None]) -> None:
        timer = asyncio.get_running_loop().call_later(TIMEOUT_S, line.expire)
        try:
            await waiter
        except asyncio.CancelledError:
            line.close()
            raise
        finally:
            timer.cancel()

    def _take(self, port: int) -> Line | None:
        idle = self._idle[port]
        while idle:
            line = idle.pop()
            if line.is_usable and perf_counter() - line.last_used < MOST_IDLE_S:
                return line
            line.close()
        return None

    async def _dial(self, port: int) -> Line:
        _, line = await asyncio.get_running_loop().create_connection(Line, "127.0.0.1", port)
        return line


async def open_loop(client: Client, asks: Sequence[Ask], start: float) -> None:
    """Each at its time, however many are in flight."""
    async with asyncio.TaskGroup() as senders:
        for ask in asks:
            await sleep_until(start + (ask.due_s or 0.0))
            senders.create_task(client.send(ask))


async def closed_loop(
    client: Client, next_ask: Callable[[], Ask | None], workers: int, spread_s: float
) -> None:
    """So many in flight until there is no next; the workers start one by one, not to march in step."""

    async def work(number: int) -> None:
        await asyncio.sleep(spread_s * number / workers)
        while (ask := next_ask()) is not None:
            await client.send(ask)

    await asyncio.gather(*(work(number) for number in range(workers)))


async def sleep_until(moment: float) -> None:
    """Never wakes early."""
    while (left_s := moment - perf_counter()) > 0:
        await asyncio.sleep(ceil(1000 * left_s) / 1000)


Play = Callable[[Client, float], Awaitable[None]]
