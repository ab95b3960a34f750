"""Where a call goes: a replica of its pool, a borrowed one, the pool's line, or nowhere."""

from __future__ import annotations

import asyncio
from random import random
from time import perf_counter

from kilocard.gateway.asked import has_media
from kilocard.gateway.call import Call
from kilocard.gateway.member import Member
from kilocard.gateway.pool import Pool
from kilocard.gateway.refusal import RefusalError
from kilocard.gateway.station import HIDDEN, Station
from kilocard.routing.admission import Decision, Priority, Reason, Verdict, admit, expected_wait_s, refusal
from kilocard.routing.pools import PoolNow, PoolRule, lends, role_for
from kilocard.specs.cluster import Canary

WATCHED_S = 0.1
"""While somebody waits, it is looked so often whether it has been for too long."""
SAID = {
    Reason.OVERLOADED: "all replicas are full and so is the line: come again later",
    Reason.DEADLINE: "the wait would be longer than this class bears: come again later",
    Reason.WAITED: "no replica came free in time: come again later",
    Reason.UNAVAILABLE: "no replica of this model is up: come again later",
}


class Placing:
    """Stations by model, and what is done when something comes free."""

    def __init__(self) -> None:
        self.stations: list[Station] = []
        self.priorities: tuple[Priority, ...] = ()
        self.canary: Canary | None = None
        self.pool_rule = PoolRule()
        self.by_model: dict[str, list[Station]] = {}
        self._by_pool: dict[Pool, Station] = {}
        self._serves_soon: set[Station] = set()
        self._watches = False

    def sort(self) -> None:
        """To be done when stations or their roles have changed."""
        self.by_model.clear()
        for station in self.stations:
            if station.role not in HIDDEN:
                self.by_model.setdefault(station.pool.model, []).append(station)
        self._by_pool = {station.pool: station for station in self.stations}

    def station_for(self, call: Call) -> Station:
        """The station of the call's model that is meant for what it asks."""
        mine = self.by_model[call.model]
        if len(mine) == 1:
            return mine[0]
        role = role_for(
            {it.role for it in mine},
            self.pool_rule,
            call.arrival.prompt_tokens + call.most_tokens,
            is_batch=call.rank == len(self.priorities) - 1,
            is_multimodal=has_media(call.content),
        )
        return next(it for it in mine if it.role == role)

    def place(self, call: Call) -> None:
        """Send it, let it wait, or refuse it."""
        station = call.ticket = self.station_for(call)
        chosen = self._choose(station, call)
        if chosen is not None and not station.line:
            call.go(*chosen)
        else:
            self._admit(call, station, chosen)

    def _admit(self, call: Call, station: Station, chosen: tuple[Pool, Member] | None) -> None:
        """Where there is no room, or others wait."""
        now, line = perf_counter(), station.line
        decision = admit(
            self.priorities[call.rank],
            serving=any(it.serves or it.expects for it in (station, *station.lenders)),
            room=chosen is not None,
            waiting=len(line),
            ahead=line.ahead(call.arrived_s, call.rank) if line else 0,
            limit=line.limit,
            per_s=station.pace.per_s(now) if line else float("inf"),
            alike=line.of_rank(call.rank),
            better=line.of_better(call.rank),
            kept=line.kept_for(call.rank),
            ageing_s=line.ageing_s,
            chance=random(),
        )
        if decision.verdict is Verdict.SEND and chosen is not None:
            call.go(*chosen)
        elif decision.verdict is Verdict.WAIT or decision.verdict is Verdict.SEND:
            self._wait(call, station, now)
        else:
            raise refused(decision)

    def again(self, call: Call) -> bool:
        """Another replica than those that were tried, now or when one comes free; False where there is
        none."""
        station = call.ticket
        assert isinstance(station, Station)
        chosen = self._choose(station, call)
        if chosen is not None:
            call.go(*chosen)
            return True
        others = [it for it in station.pool.members if it not in call.tried]
        if not any(station.pool.replicas.share[it.row] > 0 for it in others):
            return False
        self._wait(call, station, perf_counter())
        return True

    def unplace(self, call: Call) -> None:
        """It is over: if it waited, it does so no longer."""
        station = call.ticket
        if isinstance(station, Station) and station.line:
            station.line.remove(call)

    def displace(self, call: Call, station: Station) -> None:
        """There is no room for it in the line any longer."""
        per_s = station.pace.per_s(perf_counter())
        call.refuse(refused(refusal(Reason.OVERLOADED, expected_wait_s(len(station.line), per_s), random())))

    def finished(self, pool: Pool, now: float) -> None:
        """A request has ended at one of the pool's replicas."""
        station = self.of(pool)
        if station is not None:
            station.pace.saw(now, len(station.line), finished=1)
            self.came_free(pool)

    def came_free(self, pool: Pool) -> None:
        """Something ended, or somebody joined: whoever waits is served, soon."""
        station = self.of(pool)
        if station is None or not (station.line or station.borrowers):
            return
        waiting = [it for it in (station, *station.borrowers) if it.line]
        if not waiting:
            return
        if not self._serves_soon:
            asyncio.get_running_loop().call_soon(self._serve)
        self._serves_soon.update(waiting)

    def of(self, pool: Pool) -> Station | None:
        """The station of a pool; None where it is gone, though a call that it has failed waits elsewhere."""
        return self._by_pool.get(pool)

    def _watch(self) -> None:
        """As long as anybody waits."""
        if not self._watches:
            self._watches = True
            asyncio.get_running_loop().call_later(WATCHED_S, self._look)

    def _look(self) -> None:
        self._watches = False
        try:
            self._refuse_late(perf_counter())
        finally:
            if any(station.line for station in self.stations):
                self._watch()

    def _refuse_late(self, now: float) -> None:
        """Those who have waited too long."""
        for station in self.stations:
            for call in station.line.overdue(now):
                wait_s = expected_wait_s(len(station.line), station.pace.per_s(now))
                call.refuse(refused(refusal(Reason.WAITED, wait_s, random())))
            if station.line:
                self.came_free(station.pool)

    def _choose(self, station: Station, call: Call) -> tuple[Pool, Member] | None:
        """The station's own replica, or an idle one of a lender's."""
        member = self._named(station, call)
        if member is not None:
            return station.pool, member
        for lender in station.lenders:
            now = PoolNow(lender.role, True, len(lender.line), *lender.pool.load)
            if lends(now, self.pool_rule) and (member := self._named(lender, call)) is not None:
                return lender.pool, member
        return None

    def _named(self, station: Station, call: Call) -> Member | None:
        pool = station.pool
        barred = self._barred(pool, call, self.canary) if self.canary is not None else call.tried
        return pool.choose(call.arrival, call.keys, call.ends, barred)

    def _barred(self, pool: Pool, call: Call, canary: Canary) -> list[Member]:
        """Those that have failed this call, and those of the version that it is not for."""
        barred = list(call.tried)
        weight = pool.replicas.weight
        by_side: dict[bool, list[Member]] = {True: [], False: []}
        for member in pool.members:
            by_side[member.version == canary.version].append(member)
        if call.is_canary is None:
            call.is_canary = random() < canary.share
        if any(weight[it.row] > 0 for it in by_side[call.is_canary] if it not in barred):
            barred += by_side[not call.is_canary]
        return barred

    def _wait(self, call: Call, station: Station, now: float) -> None:
        priority = self.priorities[call.rank]
        gives_up_s = max(now, call.arrived_s + priority.max_wait_s)
        last = station.line.push(call, call.arrived_s, call.rank, gives_up_s)
        station.pace.saw(now, len(station.line))
        self._watch()
        if last is None:
            return
        if last is not call:
            self.displace(last, station)
        elif call.tried:
            self.displace(call, station)
        else:
            raise refused(
                refusal(Reason.OVERLOADED, expected_wait_s(len(station.line), station.pace.per_s(now)))
            )

    def _serve(self) -> None:
        """Those who wait, in order, as far as there is room."""
        stations, self._serves_soon = self._serves_soon, set()
        for station in stations:
            line = station.line
            while (call := line.first) is not None:
                chosen = self._choose(station, call)
                if chosen is None:
                    break
                line.pop()
                call.go(*chosen)
            station.pace.saw(perf_counter(), len(line))


def refused(decision: Decision) -> RefusalError:
    """A refusal in words."""
    assert decision.reason is not None
    return RefusalError(
        decision.http_status, SAID[decision.reason], str(decision.reason), decision.retry_after_s
    )
