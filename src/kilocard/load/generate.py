"""Closed and open loop: who sends which request when, and when it is not worth going on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from time import perf_counter
from typing import Any

from kilocard.load.client import Client
from kilocard.load.connection import End, Exchange
from kilocard.load.health import LATE_S
from kilocard.load.stream import Outcome, read_outcome

UNANSWERED = frozenset({End.UNREACHABLE, End.CUT, End.TIMEOUT, End.CLIENT_FAULT})
RAW_BYTES_LIMIT = 512 * 2**20
"""Answers kept unparsed; past it, each is parsed as it ends."""


@dataclass(slots=True)
class Tally:
    """Ended exchanges of a run, as rows of the request table. Parsing waits until nothing is in flight."""

    origin: float
    model: str
    keep_chunk_times: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)
    chunk_times_s: dict[str, list[float]] = field(default_factory=dict)
    ended: int = 0
    late: int = 0
    """Open-loop requests that the client turned to later than `LATE_S` after they were due."""
    client_faults: int = 0
    """Requests that this machine could not send."""
    retries: int = 0
    _raw: list[Exchange] = field(default_factory=list)
    _raw_bytes: int = 0

    def take(self, exchange: Exchange) -> None:
        """Keep an ended exchange."""
        self.ended += 1
        if exchange.due is not None and exchange.begun is not None:
            self.late += exchange.begun - exchange.due > LATE_S
        self.client_faults += exchange.end is End.CLIENT_FAULT
        self.retries += exchange.retries
        self._raw.append(exchange)
        self._raw_bytes += sum(len(data) for _, data in exchange.reads)
        if self._raw_bytes > RAW_BYTES_LIMIT:
            self.settle()

    def settle(self) -> list[dict[str, Any]]:
        """Parse what is kept; the rows that this added."""
        added = [self._row(exchange, read_outcome(exchange)) for exchange in self._raw]
        self.rows += added
        self._raw, self._raw_bytes = [], 0
        return added

    def _row(self, exchange: Exchange, outcome: Outcome) -> dict[str, Any]:
        request, times = exchange.request, [time - self.origin for time in outcome.chunk_times]
        if self.keep_chunk_times:
            self.chunk_times_s[request.request_id] = times
        return {
            "request_id": request.request_id,
            "scheduled_s": None if exchange.due is None else exchange.due - self.origin,
            "sent_s": None if exchange.sent is None else exchange.sent - self.origin,
            "first_token_s": times[0] if times else None,
            "last_token_s": times[-1] if times else None,
            "prompt_tokens": outcome.prompt_tokens or request.prompt_tokens,
            "cached_tokens": outcome.cached_tokens,
            "output_tokens": outcome.output_tokens,
            "max_tokens": request.max_tokens,
            "chunks": len(times),
            "max_gap_s": max((b - a for a, b in pairwise(times)), default=None),
            "stage": request.stage,
            "priority": request.priority,
            "tenant": request.tenant,
            "model": self.model,
            "status": outcome.status.value,
            "http_status": outcome.http_status,
            "error": outcome.error,
            "retries": exchange.retries,
            **outcome.tags,
        }


@dataclass(slots=True)
class Patience:
    """Gives up when as many requests in a row as are in flight (3 at least) got no answer.

    Then `is_alive` is asked: an engine that still answers it is only hung (after time-outs: give up) or cuts
    its streams (go on).
    """

    in_flight: int
    is_alive: Callable[[], Awaitable[bool]]
    reason: str = ""
    _unanswered: int = 0

    async def note(self, exchange: Exchange) -> None:
        """Count one end."""
        self._unanswered = self._unanswered + 1 if exchange.end in UNANSWERED else 0
        if self.reason or self._unanswered < max(3, self.in_flight):
            return
        count, self._unanswered = self._unanswered, 0
        if exchange.end is End.CLIENT_FAULT:
            self.reason = f"the last {count} requests could not be sent: {exchange.detail}"
        elif exchange.end is End.TIMEOUT:
            self.reason = f"the last {count} requests timed out ({exchange.detail})"
        elif not await self.is_alive():
            self.reason = f"the engine is gone ({exchange.detail})"


async def closed_loop(
    client: Client,
    exchanges: Sequence[Exchange],
    concurrency: int,
    spread_s: float,
    tally: Tally,
    patience: Patience,
) -> None:
    """Keep `concurrency` requests in flight: a worker sends its next when its last has ended.

    The workers start one after another over `spread_s`: in lockstep their tokens would come in bursts, and
    the last of a burst would wait for the client and for the server to get through the others.
    """
    waiting = iter(exchanges)

    async def work(number: int) -> None:
        await asyncio.sleep(spread_s * number / concurrency)
        for exchange in waiting:
            await _make(client, exchange, tally, patience)
            if patience.reason:
                return

    async with asyncio.TaskGroup() as workers:
        for number in range(concurrency):
            workers.create_task(work(number))


async def open_loop(client: Client, exchanges: Sequence[Exchange], tally: Tally, patience: Patience) -> None:
    """Send each request at its time, however many are in flight."""
    start = perf_counter()
    async with asyncio.TaskGroup() as senders:
        for exchange in exchanges:
            exchange.due = start + (exchange.request.scheduled_s or 0.0)
            await _sleep_until(exchange.due)
            if patience.reason:
                return
            senders.create_task(_make(client, exchange, tally, patience))


async def _sleep_until(moment: float) -> None:
    """Never wakes early: the loop's timers count whole milliseconds and round down."""
    while (left := moment - perf_counter()) > 0:
        await asyncio.sleep(ceil(1000 * left) / 1000)


async def _make(client: Client, exchange: Exchange, tally: Tally, patience: Patience) -> None:
    try:
        await client.send(exchange)
    finally:
        tally.take(exchange)
    await patience.note(exchange)
