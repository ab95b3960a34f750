"""Runs stages of load one after another and keeps what was measured, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, time
from typing import Any, Protocol

from kilocard.errors import KilocardError
from kilocard.load.client import Client, Timeouts
from kilocard.load.connection import Exchange
from kilocard.load.generate import Patience, Tally, closed_loop, open_loop
from kilocard.load.health import LoopHealth, fault_of, no_garbage_collection
from kilocard.load.identity import is_alive
from kilocard.load.in_thread import run_in_thread
from kilocard.load.stream import Outcome, read_outcome
from kilocard.load.target import Target
from kilocard.record import Status
from kilocard.workload import Request

MOST_SPREAD_S = 1.0
OPEN_LOOP_PATIENCE = 20
"""Requests in a row without an answer that end an open loop, which has no number in flight to go by."""

RETRYABLE_4XX = (408, 429)


@dataclass(frozen=True, slots=True)
class Stage:
    """One level of a sweep (closed loop, `concurrency`) or one rate (open loop, scheduled requests)."""

    number: int
    level: dict[str, Any]
    requests: Sequence[Request]
    concurrency: int | None = None


class Progress(Protocol):
    """What a person sees while a run goes on; called from the caller's thread, not from the loop's."""

    def show(self, stage: Stage | None, ended: int) -> None:
        """A look at the running stage, every half second."""

    def stage_ended(self, stage: Stage, rows: list[dict[str, Any]]) -> None:
        """The rows of a stage that has ended."""


@dataclass(slots=True)
class Recording:
    """What came of a run, whole or cut short."""

    began_s: float | None = None
    """When the run's clock stood at 0, in seconds since 1970; null where nothing was sent."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    chunk_times_s: dict[str, list[float]] = field(default_factory=dict)
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    stopped: str = ""
    """Why the run ended before its last request; empty when it did not."""
    interrupted: bool = False
    invalid_reason: str = ""
    late_sends: int = 0
    client_faults: int = 0
    retries: int = 0


@dataclass(slots=True)
class Recorder:
    """Makes the stages' requests on one target."""

    target: Target
    stages: Sequence[Stage]
    timeouts: Timeouts
    warmup: Sequence[Request] = ()
    keep_chunk_times: bool = False
    progress: Progress | None = None
    _spread_s: float = 0.05
    """One TTFT, as the warm-up saw it: a level's workers start over so long."""
    _recording: Recording = field(default_factory=Recording)
    _running: tuple[Stage, Tally, int] | None = None
    _ended: list[tuple[Stage, list[dict[str, Any]]]] = field(default_factory=list)

    def record(self) -> Recording:
        """Run to the end, or to an interrupt, which keeps what was measured."""
        with no_garbage_collection():
            run_in_thread(self._run, self._show)
        self._show()
        return self._recording

    def _show(self) -> None:
        if self.progress is None:
            return
        with suppress(Exception):  # whatever befalls the show, the run goes on
            while self._ended:
                self.progress.stage_ended(*self._ended.pop(0))
            if self._running:
                stage, tally, before = self._running
                self.progress.show(stage, tally.ended - before)
            else:
                self.progress.show(None, 0)

    async def _run(self) -> None:
        async with Client(self.target, self.timeouts) as client:
            await self._warm_up(client)
            tally = Tally(perf_counter(), self.target.model, self.keep_chunk_times)
            recording = self._recording
            recording.began_s = time()
            recording.rows, recording.chunk_times_s = tally.rows, tally.chunk_times_s
            for stage in self.stages:
                await self._run_stage(client, stage, tally)
                if recording.stopped:
                    return

    async def _warm_up(self, client: Client) -> None:
        for request in self.warmup:
            exchange = Exchange(request, self.target.encode(request))
            await client.send(exchange)
            outcome = read_outcome(exchange)
            _require_accepted(outcome, self.target)
            if outcome.chunk_times and exchange.sent is not None:
                self._spread_s = min(MOST_SPREAD_S, outcome.chunk_times[0] - exchange.sent)

    async def _run_stage(self, client: Client, stage: Stage, tally: Tally) -> None:
        exchanges = [Exchange(request, self.target.encode(request)) for request in stage.requests]
        patience = Patience(stage.concurrency or OPEN_LOOP_PATIENCE, self._is_alive)
        health, settled, late = LoopHealth(), len(tally.rows), tally.late
        self._running = stage, tally, tally.ended
        try:
            async with health.watched():
                if stage.concurrency:
                    workers = min(stage.concurrency, len(exchanges))
                    await client.open(workers)
                    await closed_loop(client, exchanges, workers, self._spread_s, tally, patience)
                else:
                    await open_loop(client, exchanges, tally, patience)
        except asyncio.CancelledError:
            self._recording.interrupted = True
            patience.reason = "interrupted"
        self._running = None
        tally.settle()
        self._recording.retries, self._recording.client_faults = tally.retries, tally.client_faults
        self._close_stage(stage, tally.rows[settled:], tally.late - late, health, patience.reason)

    def _close_stage(
        self, stage: Stage, rows: list[dict[str, Any]], late: int, health: LoopHealth, stopped: str
    ) -> None:
        recording, report = self._recording, health.report()
        recording.late_sends += late
        recording.stages[str(stage.number)] = {**stage.level, **report}
        fault = fault_of(
            report, _median_ttft(rows), late / len(rows) if rows else 0.0, recording.client_faults
        )
        if fault and not recording.invalid_reason:
            recording.invalid_reason = f"at {describe_level(stage.level)} {fault}"
        if not stopped and not any(row["status"] == Status.OK for row in rows):
            stopped = f"no request of {len(rows)} succeeded (first: {rows[0]['status']}, {rows[0]['error']})"
        if stopped:
            unsent = len(stage.requests) - len(rows)
            rest = f"; {unsent} of its {len(stage.requests)} requests were not sent" if unsent else ""
            recording.stopped = f"stopped at {describe_level(stage.level)}: {stopped}{rest}"
        self._ended.append((stage, rows))

    async def _is_alive(self) -> bool:
        return await is_alive(self.target)


def describe_level(level: dict[str, Any]) -> str:
    """`8 concurrent` or `2.5 requests/s`."""
    return (
        f"{level['concurrency']} concurrent"
        if "concurrency" in level
        else f"{level['rate_per_s']:g} requests/s"
    )


def _require_accepted(outcome: Outcome, target: Target) -> None:
    code = outcome.http_status or 0
    if 400 <= code < 500 and code not in RETRYABLE_4XX:
        raise KilocardError(f"{target.url} does not take such a request: {outcome.error}")


def _median_ttft(rows: list[dict[str, Any]]) -> float | None:
    times = [row["first_token_s"] - row["sent_s"] for row in rows if row["first_token_s"] is not None]
    return median(times) if times else None
