"""What is done to engines and requests now and then: processes die, are slowed, are given up on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilocard.cluster import ends, find, lines, moves
from kilocard.cluster.books import FAILED, TIMED_OUT, UNDER_WAY, UP
from kilocard.cluster.engines import slow_down
from kilocard.cluster.ground import Ground
from kilocard.engine_model.cancel import clear_slot, empty_cache, forget_own, step_out
from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS, plain
from kilocard.engine_model.scheduler import cut_run, run_end_ps
from kilocard.engine_model.state import NOBODY, PREFILLS, Engines, new_replica
from kilocard.fleet.events import sift
from kilocard.fleet.loop import Agenda
from kilocard.routing import observe
from kilocard.routing.budget import RetryBudget, RetryRule
from kilocard.routing.replicas import Policy

_sift, _cut_run, _run_end_ps = plain(sift), plain(cut_run), plain(run_end_ps)
_step_out, _clear_slot, _forget_own = plain(step_out), plain(clear_slot), plain(forget_own)
_empty_cache = plain(empty_cache)
_ended, _set_share = plain(observe.ended), plain(observe.set_share)
_find_place, _send, _wait, _close = (
    plain(find.find_place),
    plain(moves.send),
    plain(moves.wait),
    plain(moves.close),
)
_came_free, _place, _see_firsts = plain(moves.came_free), plain(moves.place), plain(ends.see_firsts)
_columns_with, _take = plain(find.columns_with), plain(lines.take)


@dataclass(slots=True)
class Hands:
    """On one cluster's tables. `usual` are its engines as they were made, `tried` the engines that have
    failed a request."""

    policy: Policy
    engines: Engines
    agenda: Agenda
    ground: Ground
    usual: Any
    retry_rule: RetryRule
    owned: NDArray[np.bool_]
    weights: NDArray[np.float64]
    caps: NDArray[np.int64]
    budgets: list[RetryBudget] = field(default_factory=list)
    tried: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _asked: list[int] = field(default_factory=list)
    _arrival_ps: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        gateways = self.ground.shape.gateways
        self.budgets = [RetryBudget(self.retry_rule) for _ in range(gateways)]
        self._asked = [0] * gateways

    @property
    def arrival_ps(self) -> NDArray[np.int64]:
        """Of those who come by themselves, in order."""
        if self._arrival_ps is None:
            self._arrival_ps = self.engines.tables.requests.arrival_ps[self.agenda.arrivals]
        return self._arrival_ps

    # --- engines

    def held_by(self, r: int) -> NDArray[np.int64]:
        """The requests that gateways have in flight at an engine."""
        books, requests = self.ground.books, self.engines.tables.requests
        mine = (books.status == UNDER_WAY) & (requests.replica == r) & (books.sent_ps >= 0)
        return np.nonzero(mine)[0]

    def empty(self, r: int, now_ps: int) -> None:
        """Its process is gone, with all that was in it."""
        tables, replica, slots = self.engines.tables, self.engines.replicas[r], self.engines.slots[r]
        if replica.tokens > 0 and replica.run_steps > 0:
            lasted_ps = min(now_ps, int(_run_end_ps(replica, replica.run_steps))) - int(replica.run_start_ps)
            replica.busy_ps += max(0, lasted_ps)
        for place in reversed(range(int(replica.occupied))):
            request = tables.requests[slots[place].request]
            _clear_slot(tables, replica, slots, place)
            _forget_own(tables, replica, request)
        _empty_cache(tables.entries, replica)
        new_replica(replica)
        for name in ("run_steps", "tokens", "decoding", "prefilling", "gathering", "waiting", "scheduled"):
            replica[name] = 0
        replica.plan += 2
        self._set_due(r, NEVER_PS)

    def slow(self, r: int, times: float, now_ps: int) -> None:
        """From its next step on."""
        replica = self.engines.replicas[r]
        self._cut(r, now_ps)
        slow_down(replica, self.usual[r], times)

    def abandon(self, request: int, now_ps: int) -> None:
        """Nobody waits for an answer any more: its engine ends it with the step under way."""
        asked = self.engines.tables.requests[request]
        r = int(asked.replica)
        replica, slots = self.engines.replicas[r], self.engines.slots[r]
        if self.ground.marks.alive[r] != UP or _step_out(self.engines.tables.requests, replica, asked):
            return
        for place in range(int(replica.occupied)):
            slot = slots[place]
            if slot.request != request:
                continue
            if slot.last_plan == PREFILLS:
                asked.output = asked.made + 1
            else:
                self._cut(r, now_ps)
                slot.last_plan = min(slot.last_plan, replica.plan + max(replica.run_steps, 1) - 1)
            return

    def _cut(self, r: int, now_ps: int) -> None:
        replica = self.engines.replicas[r]
        if replica.event_ps != NEVER_PS and replica.run_steps > 1:
            _cut_run(replica, now_ps)
            self._set_due(r, int(replica.event_ps))

    def _set_due(self, r: int, at_ps: int) -> None:
        self.agenda.due_ps[r] = at_ps
        _sift(self.agenda.heap, self.agenda.place_of, self.agenda.due_ps, r)

    # --- requests

    def fail(self, request: int, reason: int, now_ps: int, *, is_late: bool = False) -> None:
        """A try has failed: another one while the client has seen nothing and it is allowed; else an
        error."""
        books, asked = self.ground.books, self.engines.tables.requests[request]
        _see_firsts(self.engines.tables.requests, self.ground, now_ps)
        g, r, begun = int(books.gateway[request]), int(asked.replica), 0 <= asked.first_ps <= now_ps
        self.let_go(request, now_ps)
        self.tried[request].append(r)
        if not begun and self._may_retry(g, request, now_ps) and self._again(request, now_ps):
            return
        self.close(request, TIMED_OUT if is_late else FAILED, reason, now_ps)

    def let_go(self, request: int, now_ps: int) -> None:
        """Its gateway counts it at its engine no longer."""
        books, asked = self.ground.books, self.engines.tables.requests[request]
        g, r = int(books.gateway[request]), int(asked.replica)
        columns = _columns_with(self.ground, g, self.ground.shape.pool[r])
        at = g * self.ground.shape.engines + r
        expected = float(books.expected[request])
        _ended(columns, at, int(books.uncached[request]), expected, now_ps / PICOSECONDS)
        books.uncached[request] = 0
        books.sent_ps[request] = -1

    def close(self, request: int, status: int, reason: int, now_ps: int) -> None:
        """It is over for its client."""
        self.tried.pop(request, None)
        _close(self.engines, self.agenda, self.ground, request, status, reason, now_ps)

    def _may_retry(self, g: int, request: int, now_ps: int) -> bool:
        self._tell_budget(g, now_ps)
        books = self.ground.books
        if not self.budgets[g].may_retry(now_ps / PICOSECONDS, int(books.retries[request]), False):
            return False
        books.retries[request] += 1
        return True

    def _tell_budget(self, g: int, now_ps: int) -> None:
        """Of the requests that came since it was told last; those of long ago count nothing."""
        order, requests = self.agenda.arrivals, self.engines.tables.requests
        upto = int(self.agenda.counts[0])
        oldest_ps = now_ps - int(10 * self.retry_rule.memory_s * PICOSECONDS)
        first = self._asked[g]
        if upto - first > 1000:
            times = requests.arrival_ps[order[first:upto]]
            first += int(np.searchsorted(times, oldest_ps))
        for request in order[first:upto]:
            if self.ground.books.gateway[request] == g:
                self.budgets[g].asked(requests[request].arrival_ps / PICOSECONDS)
        self._asked[g] = upto

    def _again(self, request: int, now_ps: int) -> bool:
        """Another engine than those that were tried, now or when one comes free; False where there is
        none."""
        asked, books, columns = (
            self.engines.tables.requests[request],
            self.ground.books,
            self.ground.views.columns,
        )
        for name in ("first_ps", "scheduled_ps", "last_ps", "replica"):
            asked[name] = NOBODY
        asked.made = asked.preemptions = asked.cached = 0
        g = int(books.gateway[request])
        barred = [g * self.ground.shape.engines + r for r in self.tried[request]]
        kept = [float(columns.weight[at]) for at in barred]
        columns.weight[barred] = 0.0
        r = int(_find_place(self.policy, self.engines, self.ground, request))
        columns.weight[barred] = kept
        if r >= 0:
            _send(self.engines, self.agenda, self.ground, request, r, now_ps)
            return True
        home = int(books.home[request])
        begin, end = (
            g * self.ground.shape.engines + int(it) for it in self.ground.shape.begins[home : home + 2]
        )
        others = np.setdiff1d(np.arange(begin, end), barred)
        if not (columns.share[others] > 0).any():
            return False
        _wait(self.engines, self.agenda, self.ground, request, now_ps)
        return bool(books.status[request] == UNDER_WAY)

    # --- gateways

    def set_share(self, g: int, r: int, share: float, now_ps: int) -> None:
        """How much of its part an engine gets of a gateway; who waits for it is served."""
        at = g * self.ground.shape.engines + r
        before = self.ground.views.columns.share[at]
        if share == before:
            return
        _set_share(self.ground.views.columns, at, share)
        if share > before:
            self.came_free(g, int(self.ground.shape.pool[r]), now_ps)

    def came_free(self, g: int, p: int, now_ps: int) -> None:
        """There is room in a pool."""
        _came_free(self.policy, self.engines, self.agenda, self.ground, g, p, now_ps)

    def waiting_at(self, g: int) -> list[tuple[int, int, int]]:
        """(line, rank, request) of all who wait at a gateway."""
        lines, requests = self.ground.lines, self.engines.tables.requests
        pools, found = len(self.ground.shape.begins) - 1, []
        for line in range(g * pools, (g + 1) * pools):
            for rank in range(lines.heads.shape[1]):
                at = int(lines.heads[line, rank])
                while at != NOBODY:
                    found.append((line, rank, at))
                    at = int(requests[at].behind)
        return found

    def under_way_at(self, g: int) -> list[int]:
        """The requests that a gateway has in flight."""
        books = self.ground.books
        mine = (books.status == UNDER_WAY) & (books.gateway == g) & (books.sent_ps >= 0)
        return np.nonzero(mine)[0].tolist()

    def columns(self, g: int, p: int) -> Any:
        """The table of views, beside the company of one pool."""
        return _columns_with(self.ground, g, p)

    def forget_prefixes(self, g: int, r: int) -> None:
        """What an engine's cache held is not sure any more."""
        if len(self.ground.views.keys):
            self.ground.views.held.ends[g * self.ground.shape.engines + r] = 0

    def place(self, request: int, now_ps: int) -> None:
        """As the loop places one that has arrived."""
        _place(self.policy, self.engines, self.agenda, self.ground, request, now_ps)

    def leave_line(self, line: int, rank: int, request: int) -> None:
        """Out of turn."""
        _take(self.ground.lines, self.engines.tables.requests, line, rank, request)
