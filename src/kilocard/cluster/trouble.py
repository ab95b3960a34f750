"""What goes wrong with a simulated cluster, where and when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kilocard.cluster.books import FAILED, GATEWAY_LOST, MUTE, SILENT, UNDER_WAY, UP
from kilocard.cluster.calendar import Calendar
from kilocard.cluster.hands import Hands
from kilocard.cluster.life import Life
from kilocard.cluster.site import Places
from kilocard.cluster.watch import Watch
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.routing.health import Ending
from kilocard.routing.replicas import new_replicas
from kilocard.specs.scenario import Fault

OLD_METRICS_S = 15.0


@dataclass(slots=True)
class Trouble:
    """Carries out the faults of a scenario."""

    hands: Hands
    watch: Watch
    life: Life
    calendar: Calendar
    places: Places
    between_chunks_s: float

    def plan(self, faults: tuple[Fault, ...]) -> None:
        """Put them down in the calendar."""
        for fault in faults:
            for k in range(fault.repeats):
                at_s = fault.at_s + k * (fault.every_s or 0.0)
                self.calendar.at_s(at_s, partial(self._begin, fault))
                if fault.for_s is not None:
                    self.calendar.at_s(at_s + fault.for_s, partial(self._end, fault))

    def _begin(self, fault: Fault, now_ps: int) -> None:
        self.life.events.append((now_ps / PICOSECONDS, fault.kind, " ".join(map(str, fault.place))))
        if fault.kind == "gateway":
            self._lose_gateway(int(fault.place[1]), now_ps)
            return
        if fault.kind == "metrics":
            self._blind(int(fault.place[1]), now_ps)
            return
        for r in self.places.engines(*fault.place):
            if fault.kind == "slow":
                self.life.processes.slow(r, fault.times, now_ps)
            elif self.hands.ground.marks.alive[r] != UP:
                if fault.kind == "power":
                    self.life.dark.add(r)
            elif fault.kind == "crash":
                self.life.processes.end(r, now_ps)
                self.life.died(r, now_ps)
            else:
                self._silence(r, now_ps)
                if fault.kind == "hang":
                    self.life.hangs(r, now_ps)
                elif fault.kind == "power":
                    self.life.dark.add(r)
                    self.life.died(r, now_ps)

    def _end(self, fault: Fault, now_ps: int) -> None:
        if fault.kind == "gateway":
            self.hands.ground.marks.open[int(fault.place[1])] = 1
            self.watch.gateway_started(int(fault.place[1]), now_ps)
            return
        if fault.kind == "metrics":
            self.hands.ground.marks.blind[int(fault.place[1])] = 0
            return
        for r in self.places.engines(*fault.place):
            if fault.kind == "slow":
                self.life.processes.slow(r, 1.0, now_ps)
            elif fault.kind == "power":
                self.life.dark.discard(r)
                self.life.look_soon(now_ps)
            elif fault.kind == "cut" and self.hands.ground.marks.alive[r] == MUTE:
                self.hands.ground.marks.alive[r] = UP

    def _silence(self, r: int, now_ps: int) -> None:
        """It says nothing more, and nobody is told: whoever waits for it waits until its time is up."""
        hands, requests = self.hands, self.hands.engines.tables.requests
        held = hands.held_by(r)
        hands.empty(r, now_ps)
        hands.ground.marks.alive[r] = MUTE
        self.watch.suspect(r, now_ps)
        for request in held:
            if requests[request].first_ps > now_ps:
                requests[request].first_ps = -1
            if requests[request].first_ps >= 0:
                tries = int(hands.ground.books.sent_ps[request])
                self.calendar.at_s(
                    now_ps / PICOSECONDS + self.between_chunks_s,
                    partial(self._give_up, int(request), tries),
                )

    def _give_up(self, request: int, sent_ps: int, now_ps: int) -> None:
        books = self.hands.ground.books
        if books.status[request] == UNDER_WAY and books.sent_ps[request] == sent_ps:
            self.late(request, now_ps)

    def late(self, request: int, now_ps: int) -> None:
        """Its engine has said nothing for too long."""
        books, requests = self.hands.ground.books, self.hands.engines.tables.requests
        g, r = int(books.gateway[request]), int(requests[request].replica)
        self.hands.abandon(request, now_ps)
        self.watch.request_ended(g, r, Ending.HANG, int(books.sent_ps[request]), now_ps)
        self.hands.fail(request, SILENT, now_ps, is_late=True)

    def _lose_gateway(self, g: int, now_ps: int) -> None:
        """All that it held is cut off; what it knew is gone."""
        hands = self.hands
        hands.ground.marks.open[g] = 0
        for line, rank, request in hands.waiting_at(g):
            hands.leave_line(line, rank, request)
            hands.close(request, FAILED, GATEWAY_LOST, now_ps)
        for request in hands.under_way_at(g):
            hands.abandon(request, now_ps)
            hands.let_go(request, now_ps)
            hands.close(request, FAILED, GATEWAY_LOST, now_ps)
        shape, columns = hands.ground.shape, hands.ground.views.columns
        rows = slice(g * shape.engines, (g + 1) * shape.engines)
        fresh = new_replicas(shape.engines)
        for name, column in columns._asdict().items():
            if name not in ("company", "cap"):
                column[rows] = getattr(fresh, name)
        columns.share[rows] = columns.weight[rows] = 0.0
        for r in range(shape.engines):
            self.watch.health.pop((g, r), None)

    def _blind(self, g: int, now_ps: int) -> None:
        self.hands.ground.marks.blind[g] = 1
        shape, kv_free = self.hands.ground.shape, self.hands.ground.views.columns.kv_free

        def forget(_: int) -> None:
            if self.hands.ground.marks.blind[g]:
                kv_free[g * shape.engines : (g + 1) * shape.engines] = 1.0

        self.calendar.at_s(now_ps / PICOSECONDS + OLD_METRICS_S, forget)
