"""What is kept of calls that have ended: counted, and written to the log, many at a time."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, time

from kilocard.gateway.call import Call
from kilocard.gateway.log import AccessLog, entry_of, refused_entry, time_at
from kilocard.gateway.message import Message
from kilocard.gateway.refusal import RefusalError
from kilocard.gateway.telemetry import Telemetry

MOST_OPEN = 32
"""Calls that have ended and are not in the books: one after another they cost far less than each by itself,
between whatever else goes on; and while they are written down, nobody else is served."""


class Books:
    """To be settled now and then, and before anybody reads them."""

    def __init__(self, telemetry: Telemetry, log: AccessLog) -> None:
        self.telemetry, self.log = telemetry, log
        self.readers: list[Callable[[Call], None]] = [telemetry.note]
        """Those who learn from a call that has ended."""
        self._open: list[Call] = []

    def note(self, call: Call) -> None:
        """It has ended."""
        self._open.append(call)
        if len(self._open) >= MOST_OPEN:
            self.settle()

    def refused(self, client: str, refusal: RefusalError, message: Message) -> None:
        """It never became a call."""
        self.settle()
        self.telemetry.refusals["", str(refusal.status)] += 1
        self.log.note(refused_entry(client, refusal, message))

    def settle(self) -> None:
        """All that have ended are in the books."""
        calls, self._open = self._open, []
        clock_s = time() - perf_counter()
        for call in calls:
            for reader in self.readers:
                reader(call)
            self.log.note(entry_of(call, time_at(clock_s + call.ended_s)))
