"""A gateway that holds back, in virtual time: its own line and admission, before engines of a known pace.

And what becomes of a load by class: who was answered within the limits, who waited how long, who was refused.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import pandas as pd

from kilocard.record import REQUEST_COLUMNS, Run, Status, typed
from kilocard.routing.admission import Priority, Verdict, admit
from kilocard.routing.pace import Pace
from kilocard.routing.waiting import Line
from kilocard.specs import SLO
from kilocard.specs.cluster import CLASSES, GatewaySpec
from kilocard.stats import is_good, ttft_s
from kilocard.workload import Request, Workload

Speed = Callable[[float], tuple[float, float]]
"""TTFT and TPOT at a replica, in seconds, by how many are in flight there."""


@dataclass(slots=True)
class Desk:
    """A pool of `slots` places before `replicas` engines, and what has become of each request so far."""

    replicas: int
    slots: int
    speed: Speed
    line: Line[Request]
    priorities: Mapping[str, Priority]
    ends_s: list[float]
    pace: Pace
    rows: list[dict[str, Any]]

    def arrive(self, request: Request) -> None:
        """Sent, put in line, or refused: by the gateway's own rule."""
        now_s, line = request.scheduled_s or 0.0, self.line
        priority = self.priorities[request.priority or CLASSES[0]]
        decision = admit(
            priority,
            serving=True,
            room=len(self.ends_s) < self.slots,
            waiting=len(line),
            ahead=line.ahead(now_s, priority.rank) if line else 0,
            limit=line.limit,
            per_s=self.pace.per_s(now_s) if line else inf,
            alike=line.of_rank(priority.rank),
            better=line.of_better(priority.rank),
            kept=line.kept_for(priority.rank),
            ageing_s=line.ageing_s,
        )
        if decision.verdict is Verdict.REFUSE:
            self._refuse(request)
        elif decision.verdict is Verdict.SEND:
            self._send(request, now_s)
        else:
            displaced = line.push(request, now_s, priority.rank, now_s + priority.max_wait_s)
            self.pace.saw(now_s, len(line))
            if displaced is not None:
                self._refuse(displaced)

    def go_on(self, until_s: float) -> None:
        """All that ends before then, and whoever takes the places."""
        while self.ends_s and self.ends_s[0] < until_s:
            now_s = heapq.heappop(self.ends_s)
            for late in self.line.overdue(now_s):
                self._refuse(late)
            self.pace.saw(now_s, len(self.line), finished=1)
            if request := self.line.pop():
                self._send(request, now_s)

    def _send(self, request: Request, now_s: float) -> None:
        sent_s = request.scheduled_s or 0.0
        ttft_s, tpot_s = self.speed((len(self.ends_s) + 1) / self.replicas)
        first_s = now_s + ttft_s
        last_s = first_s + (request.max_tokens - 1) * tpot_s
        heapq.heappush(self.ends_s, last_s)
        times = {"first_token_s": first_s, "last_token_s": last_s}
        told = {"output_tokens": request.max_tokens, "queue_s": now_s - sent_s, "status": Status.OK.value}
        self.rows.append({**_asked(request), **times, **told})

    def _refuse(self, request: Request) -> None:
        self.rows.append({**_asked(request), "status": Status.REFUSED.value, "http_status": 503})


def held_back(load: Workload, gateway: GatewaySpec, *, replicas: int, cap: int, speed: Speed) -> pd.DataFrame:
    """The request table of a load behind a gateway with this line and these classes, in virtual time.

    A request that has a place gets its tokens at the speed of the moment when it took it.
    """
    ranked = zip(CLASSES, gateway.classes.by_rank, strict=True)
    priorities = {name: Priority(name, rank, it.max_wait_s) for rank, (name, it) in enumerate(ranked)}
    line = Line[Request](gateway.queue.limit, gateway.queue.ageing_s)
    desk = Desk(replicas, replicas * cap, speed, line, priorities, [], Pace(), [])
    for request in load.draw():
        desk.go_on(request.scheduled_s or 0.0)
        desk.arrive(request)
    desk.go_on(inf)
    return typed(desk.rows, REQUEST_COLUMNS)


def good_per_s(requests: pd.DataFrame, slo: SLO, seconds: tuple[float, float], name: str = "") -> float:
    """Requests a second that were asked for in a span (from, to; seconds after the first was asked for) and
    answered within the limits: of one class, or of all."""
    asked_s = requests["scheduled_s"] - requests["scheduled_s"].min()
    counted = is_good(requests, slo) & (asked_s >= seconds[0]) & (asked_s < seconds[1])
    if name:
        counted &= requests["priority"] == name
    return float(counted.sum()) / (seconds[1] - seconds[0])


def by_class(requests: pd.DataFrame) -> list[tuple[str, int, int, int, float | None, float | None]]:
    """Of each class: asked, answered, refused, and of those answered the median and the longest wait for the
    first token, in seconds."""
    rows = []
    for name in CLASSES:
        mine = requests[requests["priority"] == name]
        answered = mine[mine["status"] == Status.OK]
        waits = ttft_s(answered).to_numpy(float)
        longest = (float(np.median(waits)), float(waits.max())) if len(waits) else (None, None)
        refused = int((mine["status"] == Status.REFUSED).sum())
        rows.append((name, len(mine), len(answered), refused, *longest))
    return rows


def longest_line(played: Run) -> int:
    """The most that were seen waiting at the gateway, by its samples."""
    return int(played.samples["waiting"].max())


def _asked(request: Request) -> dict[str, Any]:
    at_s = request.scheduled_s
    return {
        "request_id": request.request_id,
        "scheduled_s": at_s,
        "sent_s": at_s,
        "priority": request.priority,
        "prompt_tokens": request.prompt_tokens,
        "max_tokens": request.max_tokens,
        "stage": request.stage,
    }


def speed_of(concurrency: Sequence[int], ttft_s: Sequence[float], tpot_s: Sequence[float]) -> Speed:
    """The speed at each concurrency, between those that are known."""
    return lambda held: (
        float(np.interp(held, concurrency, ttft_s)),
        float(np.interp(held, concurrency, tpot_s)),
    )
