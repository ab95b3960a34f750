"""Watches the engines: probes them, judges what their requests came to, and says how much each shall get."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from random import random
from time import perf_counter

from kilocard.gateway.call import Call, Outcome
from kilocard.gateway.member import Member
from kilocard.gateway.placing import Placing
from kilocard.gateway.probe import Probed, probe
from kilocard.gateway.station import Station
from kilocard.gateway.telemetry import Telemetry
from kilocard.gateway.weighing import Weighing
from kilocard.routing import health as rules
from kilocard.routing.budget import RetryBudget, RetryRule
from kilocard.routing.failover import FailoverRule, group_in_use, open_shares
from kilocard.routing.health import Ending, Health, HealthRule, State
from kilocard.routing.probes import probe_delay_s
from kilocard.routing.slow import FAST, Paced, Slowness, SlowRule, judge

JUDGED_S = 1.0
IN = (State.UP, State.RECOVERING)


@dataclass(slots=True, eq=False)
class Watched:
    """What is known of one member."""

    health: Health
    slowness: Slowness = FAST
    due_s: float = 0.0
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Warden:
    """Of gateway number `gateway` of `gateways`."""

    placing: Placing
    telemetry: Telemetry
    rule: HealthRule = field(default_factory=HealthRule)
    gateway: int = 0
    gateways: int = 1
    probe_timeout_s: float = 30.0
    failover: FailoverRule = field(default_factory=FailoverRule)
    slow_rule: SlowRule = field(default_factory=SlowRule)
    weighing: Weighing = field(default_factory=Weighing)
    budget: RetryBudget = field(default_factory=lambda: RetryBudget(RetryRule()))
    known: dict[Member, Watched] = field(default_factory=dict)
    groups: dict[Station, int] = field(default_factory=dict)
    _judged_s: float = 0.0

    def request_ended(self, member: Member, ending: Ending, sent_s: float, now_s: float) -> None:
        """Of what clients ask."""
        watched = self.known.get(member)
        if watched is None:
            return
        health = watched.health
        if ending is Ending.OK and not health.failures and not health.misses:
            return
        before = health.state
        alive = member.heard_s > sent_s
        watched.health = rules.request_ended(health, self.rule, ending, sent_s, now_s, alive)
        if watched.health.state is not before:
            self._changed(member, watched)

    def weigh_in(self, call: Call) -> None:
        """What a call that has ended tells of its replica."""
        if call.outcome is Outcome.OK:
            member = call.tried[-1]
            member.served += 1
            if call.tpot_s:
                self.weighing.saw(member, call.tpot_s, call.ended_s)

    def state_of(self, member: Member) -> str:
        """As a person is shown it."""
        watched = self.known.get(member)
        if member.is_draining:
            return "draining"
        if watched is None:
            return str(State.STARTING)
        health = rules.settled(watched.health, self.rule, perf_counter())
        return str(rules.shown(health, watched.slowness.slow))

    def tick(self, now_s: float) -> None:
        """Probe whoever is due; now and then judge them all, and let their shares follow."""
        members = [(station, it) for station in self.placing.stations for it in station.pool.members]
        for gone in self.known.keys() - {member for _, member in members}:
            self._forget(gone)
        for number, (station, member) in enumerate(members):
            watched = self.known.get(member)
            if watched is None:
                watched = self.known[member] = Watched(rules.started(now_s), due_s=now_s)
            if watched.task is None and now_s >= watched.due_s:
                watched.task = asyncio.create_task(
                    self._probe(station, member, watched, number, len(members))
                )
        if now_s < self._judged_s + JUDGED_S:
            return
        self._judged_s = now_s
        weighs = self.weighing.is_due(now_s)
        for station in self.placing.stations:
            self._judge(station, now_s)
            if weighs:
                self._weigh(station, now_s)
        self.apply(now_s)

    def apply(self, now_s: float) -> None:
        """Set each member's share: its weight, as its health and its group allow."""
        for station in self.placing.stations:
            members = station.pool.members
            known = [self.known[it].health if it in self.known else rules.started(now_s) for it in members]
            station.expects = any(it.state is State.STARTING and not it.refused for it in known)
            by_health = [
                0.0 if member.is_draining or not member.is_owned else share
                for member, share in zip(members, rules.shares(known, self.rule, now_s), strict=True)
            ]
            for member, share in zip(members, self._by_group(station, by_health), strict=True):
                slow = member in self.known and self.known[member].slowness.slow
                part = self.slow_rule.share if slow else 1.0
                weight = member.weight * self.weighing.weight(member)
                self._set(station, member, weight * share * part)

    def close(self) -> None:
        """No more probes."""
        for member in list(self.known):
            self._forget(member)

    def _set(self, station: Station, member: Member, share: float) -> None:
        before = float(station.pool.replicas.share[member.row])
        if share == before:
            return
        station.pool.set_share(member, share)
        if share > before:
            self.placing.came_free(station.pool)

    def _by_group(self, station: Station, shares: list[float]) -> list[float]:
        """Only the first group that is well serves."""
        if not self.failover.order:
            return shares
        groups = [member.group for member in station.pool.members]
        used = group_in_use(self.failover, groups, shares, self.groups.get(station, 0))
        self.groups[station] = used
        rooms = [bool(weight > 0) for weight in station.pool.replicas.weight]
        return open_shares(self.failover, groups, shares, rooms, used)

    def _judge(self, station: Station, now_s: float) -> None:
        """Who is slow beside its pool gets less, until it is as fast as the others again."""
        members = [member for member in station.pool.members if member in self.known]
        table = station.pool.replicas
        seen = [
            Paced(
                float(table.tpot_s[member.row]),
                float(table.active[member.row]),
                member.heard_s,
                self.known[member].health.state in IN,
            )
            for member in members
        ]
        judged = judge([self.known[member].slowness for member in members], self.slow_rule, seen, now_s)
        for number, (member, slowness) in enumerate(zip(members, judged.pool, strict=True)):
            self.known[member].slowness = slowness
            if number in judged.forget:
                table.tpot_s[member.row] = table.slowness[member.row] = 0.0
            member.wants_restart = number in judged.restart

    def _weigh(self, station: Station, now_s: float) -> None:
        """Each by its own pace, and by how much of its cap is in use."""
        members, table = station.pool.members, station.pool.replicas
        busy = [
            float(table.active[it.row] / table.cap[it.row]) if table.cap[it.row] else 0.0 for it in members
        ]
        self.weighing.weigh(members, busy, now_s)

    async def _probe(
        self, station: Station, member: Member, watched: Watched, number: int, members: int
    ) -> None:
        sent_s = perf_counter()
        probed = await probe(member, station.pool.model, self.probe_timeout_s)
        now_s = perf_counter()
        before = watched.health.state
        ending = Ending.OK if probed.ending is Ending.CLIENT else probed.ending
        alive = member.heard_s > sent_s
        watched.health = rules.probed(watched.health, self.rule, ending, now_s, alive)
        watched.task = None
        watched.due_s = now_s + probe_delay_s(
            watched.health,
            self.rule,
            replica=number,
            replicas=members,
            gateway=self.gateway,
            gateways=self.gateways,
            shared_s=time.time(),
        )
        self.telemetry.probes[member.id, str(probed.ending)] += 1
        self._learn(station, member, probed)
        if watched.health.state is not before:
            self._changed(member, watched)

    def _learn(self, station: Station, member: Member, probed: Probed) -> None:
        """A probe tells the pace of one that nobody asks any more."""
        if probed.tokens and member in station.pool.members:
            now_s = perf_counter()
            read, requests_s = station.pool.mark(member, now_s)
            alone = read, requests_s - (station.pool.active(member) + 1) * probed.seconds
            station.pool.progressed(member, probed.tokens, probed.seconds, 0.0, alone, now_s)

    def _changed(self, member: Member, watched: Watched) -> None:
        """It fell, or came back: nothing of what its cache held is sure after a fall."""
        if watched.health.state is State.DOWN:
            self.weighing.forget(member)
            watched.due_s = min(watched.due_s, perf_counter() + self.rule.down_interval_s * (0.5 + random()))
            for station in self.placing.stations:
                if member in station.pool.members:
                    station.pool.forget(member)
        self.apply(perf_counter())

    def _forget(self, member: Member) -> None:
        watched = self.known.pop(member)
        self.weighing.forget(member)
        if watched.task is not None:
            watched.task.cancel()
