"""The end that asks: round trips, messages of all sizes, and rates, within seconds."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

from kilocard.errors import KilocardError
from kilocard.network.fit import fit_messages
from kilocard.network.protocol import (
    BLOCK_BYTES,
    VERSION,
    WAIT_S,
    BusyError,
    Frame,
    Line,
    PeerError,
    SlowError,
    Verb,
    place_of,
)
from kilocard.network.result import NetworkResult, Rate, Trip
from kilocard.network.server import give
from kilocard.stats.latency import percentile

LIMIT_S = 10.0
PING_BYTES, PINGS, PING_S = 64, 1000, 1.0
PINGS_AT_ONCE = 20
SIZES = tuple(2**10 * 4**step for step in range(9))
"""1 KiB to 64 MiB."""
TRIPS_S, TRIP_S, MOST_TRIPS = 3.0, 0.25, 20
RATE_S = 0.35
LEAST_RATE_BYTES, MOST_RATE_BYTES = 2**14, 2**30
STREAMS = 4


def measure_network(
    host: str, port: int, *, streams: int = STREAMS, limit_s: float = LIMIT_S
) -> NetworkResult:
    """Measure the way to a `Listener`, for `limit_s` at the most; one line where it fails."""
    if not 1 <= streams <= 32:
        raise KilocardError(f"{streams} streams: give 1 to 32")
    if not 1 <= limit_s <= 25:
        raise KilocardError(f"a limit of {limit_s} s: give 1 to 25")
    test = _Test(host, port, time.monotonic() + limit_s)
    try:
        return test.run(streams)
    except SlowError as error:
        raise KilocardError(
            f"{place_of(host, port)} answers, but its test did not end within {limit_s:g} s: "
            "so slow or lossy a wire carries no engine's traffic"
        ) from error
    except BusyError as error:
        raise KilocardError(
            f"{place_of(host, port)} {error}: wait until other tests are done, or give fewer --streams"
        ) from error
    except PeerError as error:
        raise KilocardError(
            f"{place_of(host, port)} {error}: does `kilocard doctor listen` of this version run there?"
        ) from error


@dataclass(slots=True)
class _Test:
    host: str
    port: int
    deadline_s: float
    moved_bytes: int = 0
    buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(BLOCK_BYTES)))
    block: memoryview = field(default_factory=lambda: memoryview(os.urandom(BLOCK_BYTES)))

    def run(self, streams: int) -> NetworkResult:
        began = time.monotonic()
        with self._line() as line:
            pings = self._pings(line)
            half = median(pings) / 2
            trips = self._trips(line, half)
        sustained = trips[-1].size_bytes / trips[-1].median_s
        rates = tuple(self._rate(count, sustained) for count in sorted({1, streams}))
        return NetworkResult(
            round_trip_p50_s=median(pings),
            round_trip_p99_s=percentile(pings, 0.99),
            round_trips=len(pings),
            trips=tuple(trips),
            rates=rates,
            fit=fit_messages([trip.size_bytes for trip in trips], [trip.median_s for trip in trips]),
            took_s=time.monotonic() - began,
            moved_bytes=self.moved_bytes,
        )

    def _pings(self, line: Line) -> list[float]:
        """Round trips of a small message; the first ones warm the way."""
        message = self.block[:PING_BYTES]
        times: list[float] = []
        until = time.monotonic() + PING_S
        while len(times) < PINGS + PINGS_AT_ONCE and (
            len(times) <= PINGS_AT_ONCE or time.monotonic() < until
        ):
            ask(line, Frame(Verb.ECHO, PINGS_AT_ONCE, PING_BYTES))
            for _ in range(PINGS_AT_ONCE):
                sent = time.perf_counter()
                line.send(message)
                line.receive_into(self.buffer, PING_BYTES)
                times.append(time.perf_counter() - sent)
        self.moved_bytes += 2 * PING_BYTES * len(times)
        return times[PINGS_AT_ONCE:]

    def _trips(self, line: Line, half: float) -> list[Trip]:
        """One-way times by size, as far as the time goes, two at least; a tenth of a receipt's or more."""
        trips: list[Trip] = []
        until, last = time.monotonic() + TRIPS_S, half
        for size in SIZES:
            expected = 4 * last
            if len(trips) >= 2 and time.monotonic() + 2 * expected > until:
                break
            count = max(2, min(MOST_TRIPS, int(TRIP_S / expected)))
            last = median(self._receipts(line, size, count))
            trips.append(Trip(size, max(last - half, last / 10), count))
        return trips

    def _receipts(self, line: Line, size: int, count: int) -> list[float]:
        ask(line, Frame(Verb.TAKE, count, size))
        times = []
        for _ in range(count):
            sent = time.perf_counter()
            give(line, size, self.block)
            receipt(line)
            times.append(time.perf_counter() - sent)
        self.moved_bytes += count * size
        return times

    def _rate(self, streams: int, expected_bytes_per_s: float) -> Rate:
        size = int(min(max(expected_bytes_per_s * RATE_S, LEAST_RATE_BYTES), MOST_RATE_BYTES))
        rates = []
        for verb in (Verb.TAKE, Verb.GIVE):
            took_s = self._together(streams, Frame(verb, 1, size))
            self.moved_bytes += streams * size
            rates.append(streams * size / took_s)
        return Rate(streams, *rates)

    def _together(self, streams: int, asked: Frame) -> float:
        """Seconds until every one of so many connections has moved its bytes."""
        ready = threading.Barrier(streams + 1, timeout=2 * WAIT_S)
        failed: list[BaseException] = []
        threads = [
            threading.Thread(target=self._stream, args=(asked, ready, failed), daemon=True)
            for _ in range(streams)
        ]
        for thread in threads:
            thread.start()
        with contextlib.suppress(threading.BrokenBarrierError):
            ready.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        took_s = time.perf_counter() - began
        if failed:
            raise failed[0]
        return took_s

    def _stream(self, asked: Frame, ready: threading.Barrier, failed: list[BaseException]) -> None:
        try:
            with self._line() as line:
                ready.wait()
                ask(line, asked)
                if asked.verb == Verb.TAKE:
                    give(line, asked.size, self.block)
                    receipt(line)
                else:
                    line.receive_into(memoryview(bytearray(BLOCK_BYTES)), asked.size)
        except (PeerError, KilocardError, threading.BrokenBarrierError) as error:
            failed.append(
                error if isinstance(error, PeerError | KilocardError) else PeerError("did not start")
            )
            ready.abort()

    @contextmanager
    def _line(self) -> Iterator[Line]:
        try:
            connection = socket.create_connection((self.host, self.port), timeout=WAIT_S)
        except (OSError, UnicodeError) as error:
            reason = (
                "no answer"
                if isinstance(error, TimeoutError)
                else getattr(error, "strerror", None) or str(error)
            )
            raise KilocardError(
                f"{place_of(self.host, self.port)} cannot be reached ({reason.lower()}): "
                "start `kilocard doctor listen --host 0.0.0.0` there, and let its port through the firewall"
            ) from error
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield Line(connection, self.deadline_s)


def ask(line: Line, frame: Frame) -> None:
    """Send a request, and have it accepted."""
    line.send(frame.packed())
    receipt(line)


def receipt(line: Line) -> None:
    """The other end's word that all is there."""
    answer = line.receive_frame()
    if answer is None:
        raise PeerError("closed the connection in the middle")
    if answer.version != VERSION:
        raise PeerError(f"speaks version {answer.version} of this test, and here it is {VERSION}")
    if answer.verb == Verb.BUSY:
        raise BusyError("is busy: its listener serves as many connections as it may")
    if answer.verb != Verb.OK:
        raise PeerError("refused what was asked")
