"""Watches the engines: probes them, judges what their requests came to, and says how much each shall get."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from random import random
from time import perf_counter

from kilocard.gateway.member import Member
from kilocard.gateway.placing import Placing, Station
from kilocard.gateway.probe import Probed, ask
from kilocard.gateway.telemetry import Telemetry
from kilocard.routing import health as rules
from kilocard.routing.health import Ending, Health, HealthRule, State
from kilocard.routing.probes import probe_delay_s


@dataclass(slots=True, eq=False)
class Watched:
    """What is known of one member."""

    health: Health
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
    failover: tuple[str, ...] = ()
    retry_share: float = 0.1
    known: dict[Member, Watched] = field(default_factory=dict)
    _tries_left: float = 10.0

    def asked(self, now_s: float) -> None:
        """A first try: the budget of second ones grows."""
        self._tries_left = min(100.0, self._tries_left + self.retry_share)

    def may_retry(self, now_s: float) -> bool:
        """Use one of the budget, if one is left."""
        if self._tries_left < 1:
            return False
        self._tries_left -= 1
        return True

    def request_ended(self, member: Member, ending: Ending, sent_s: float, now_s: float) -> None:
        """Of what clients ask."""
        watched = self.known.get(member)
        if watched is None:
            return
        before = watched.health.state
        alive = member.heard_s > sent_s
        watched.health = rules.request_ended(watched.health, self.rule, ending, sent_s, now_s, alive)
        if watched.health.state is not before:
            self._changed(member, watched)

    def state_of(self, member: Member) -> str:
        """As a person is shown it."""
        watched = self.known.get(member)
        if member.is_draining:
            return "draining"
        return str(rules.shown(watched.health, slow=False)) if watched else str(State.STARTING)

    def tick(self, now_s: float) -> None:
        """Probe whoever is due; shares follow health."""
        members = [(station, it) for station in self.placing.stations for it in station.pool.members]
        for gone in self.known.keys() - {member for _, member in members}:
            self._forget(gone)
        for number, (station, member) in enumerate(members):
            watched = self.known.get(member)
            if watched is None:
                watched = self.known[member] = Watched(rules.started(now_s), now_s)
            if watched.task is None and now_s >= watched.due_s:
                watched.task = asyncio.create_task(
                    self._probe(station, member, watched, number, len(members))
                )
        self.apply(now_s)

    def apply(self, now_s: float) -> None:
        """Set each member's share: its weight, as its health and its group allow."""
        for station in self.placing.stations:
            members = station.pool.members
            known = [self.known[it].health if it in self.known else rules.started(now_s) for it in members]
            by_health = rules.shares(known, self.rule, now_s)
            group = self._group_in_use(station, by_health)
            for member, share in zip(members, by_health, strict=True):
                is_out = member.is_draining or (group is not None and member.group != group)
                self._set(station, member, 0.0 if is_out else member.weight * share)

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

    def _group_in_use(self, station: Station, by_health: list[float]) -> str | None:
        """Of the groups in their order, the first that has somebody."""
        for group in self.failover:
            rows = zip(station.pool.members, by_health, strict=True)
            if any(it.group == group and share > 0 and not it.is_draining for it, share in rows):
                return group
        return None

    async def _probe(
        self, station: Station, member: Member, watched: Watched, number: int, members: int
    ) -> None:
        sent_s = perf_counter()
        probed = await ask(member, station.pool.model, self.probe_timeout_s)
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
            station.pool.progressed(member, probed.tokens, probed.seconds, 0.0)

    def _changed(self, member: Member, watched: Watched) -> None:
        """It fell, or came back: nothing of what its cache held is sure after a fall."""
        if watched.health.state is State.DOWN:
            watched.due_s = min(watched.due_s, perf_counter() + self.rule.down_interval_s * (0.5 + random()))
            for station in self.placing.stations:
                if member in station.pool.members:
                    station.pool.forget(member)
        self.apply(perf_counter())

    def _forget(self, member: Member) -> None:
        watched = self.known.pop(member)
        if watched.task is not None:
            watched.task.cancel()
