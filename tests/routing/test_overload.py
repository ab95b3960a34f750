"""At three times what a pool can do, in virtual time: line, admission and pace together."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

import pytest

from kilocard.routing.admission import (
    ASYNCHRONOUS,
    BATCH,
    INTERACTIVE,
    PRIORITIES,
    SEND,
    WAIT,
    Priority,
    admit,
)
from kilocard.routing.pace import Pace
from kilocard.routing.waiting import Line

PER_S, SLOTS = 20.0, 40
SECONDS, WARM_S = 400.0, 150.0
AGEING_S = 30.0


@dataclass(slots=True, eq=False)
class Request:
    arrived_s: float
    priority: Priority


@dataclass(slots=True)
class Pool:
    """SLOTS requests at a time, PER_S a second; waits of those that were served, by priority."""

    line: Line[Request]
    pace: Pace = field(default_factory=Pace)
    ends_s: list[float] = field(default_factory=list)
    longest_line: int = 0
    waits_s: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PRIORITIES})
    chance: random.Random = field(default_factory=lambda: random.Random(4))

    def start(self, request: Request, now_s: float) -> None:
        heapq.heappush(self.ends_s, now_s + self.chance.expovariate(PER_S / SLOTS))
        if now_s > WARM_S:
            self.waits_s[request.priority.name].append(now_s - request.arrived_s)

    def end(self) -> None:
        now_s = heapq.heappop(self.ends_s)
        self.line.overdue(now_s)
        if request := self.line.pop():
            self.start(request, now_s)
        self.pace.saw(now_s, len(self.line), finished=1)

    def arrive(self, request: Request) -> None:
        now_s, rank, line = request.arrived_s, request.priority.rank, self.line
        line.overdue(now_s)
        decision = admit(
            request.priority, serving=True, room=len(self.ends_s) < SLOTS, waiting=len(line),
            ahead=line.ahead(now_s, rank), limit=line.limit, per_s=self.pace.per_s(now_s),
            alike=line.of_rank(rank), better=line.of_better(rank), kept=line.kept_for(rank),
            ageing_s=line.ageing_s,
        )  # fmt: skip
        if decision is SEND:
            self.start(request, now_s)
        elif decision is WAIT:
            line.push(request, now_s, rank, now_s + request.priority.max_wait_s)
            self.pace.saw(now_s, len(line))
        self.longest_line = max(self.longest_line, len(line))


def served(load: float, limit: int) -> Pool:
    pool, now_s = Pool(Line(limit, AGEING_S)), 0.0
    while now_s < SECONDS:
        now_s += pool.chance.expovariate(load * PER_S)
        while pool.ends_s and pool.ends_s[0] < now_s:
            pool.end()
        priority = pool.chance.choices([INTERACTIVE, ASYNCHRONOUS, BATCH], [7, 2, 1])[0]
        pool.arrive(Request(now_s, priority))
    return pool


@pytest.mark.parametrize("limit", [60, 200, 1024])
def test_interactive_work_goes_on_and_nobody_starves(limit: int) -> None:
    at_capacity, overloaded = served(1.0, limit), served(3.0, limit)
    assert len(overloaded.waits_s["interactive"]) >= 0.95 * len(at_capacity.waits_s["interactive"])
    assert overloaded.longest_line <= limit
    for priority in (ASYNCHRONOUS, BATCH):
        waits_s = overloaded.waits_s[priority.name]
        assert len(waits_s) > 0.001 * PER_S * (SECONDS - WARM_S)
        assert max(waits_s) <= priority.rank * AGEING_S + INTERACTIVE.max_wait_s + 3
    assert max(overloaded.waits_s["interactive"]) <= INTERACTIVE.max_wait_s
