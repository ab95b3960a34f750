"""How gateways look after their replicas: probes, failures, slowness; the rules of `kilocard.routing`.

A replica that is well and known as such is not probed one by one: its probes would say so, and cost it four
tokens each time. From the moment it is not, every gateway probes it at its own turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np

from kilocard.cluster.books import GONE, MUTE, UP
from kilocard.cluster.calendar import Calendar
from kilocard.cluster.hands import Hands
from kilocard.engine_model.compiled import PICOSECONDS, plain
from kilocard.routing import health as rules
from kilocard.routing import observe
from kilocard.routing.health import Ending, Health, HealthRule, State
from kilocard.routing.probes import probe_delay_s
from kilocard.routing.slow import SlowRule
from kilocard.specs.cluster import ClusterSpec

WELL = Health(State.UP, -inf)
IN = (State.UP, State.RECOVERING)
RAMP_EVERY_S = 1.0
ANSWERED_S = 0.1
PROBE_TOKENS = 4
_progressed = plain(observe.progressed)
_columns_with = None


@dataclass(slots=True)
class Watch:
    """Of all gateways over all engines. `health` holds who is not simply well, by gateway and engine;
    `slow` who was slow at the last look."""

    spec: ClusterSpec
    hands: Hands
    calendar: Calendar
    rule: HealthRule
    slow_rule: SlowRule
    probe_timeout_s: float
    health: dict[tuple[int, int], Health] = field(default_factory=dict)
    slow: set[tuple[int, int]] = field(default_factory=set)
    draining: set[int] = field(default_factory=set)
    events: list[tuple[float, str, str]] = field(default_factory=list)
    _probed: set[tuple[int, int]] = field(default_factory=set)
    _ramped: set[tuple[int, int]] = field(default_factory=set)

    # --- what is seen

    def suspect(self, r: int, now_ps: int) -> None:
        """Something has happened to an engine: each gateway's next probes will tell."""
        for g in range(self._shape.gateways):
            self._keep(g, r, self.health.get((g, r), WELL))
            self._probe_later(g, r, now_ps)

    def request_ended(self, g: int, r: int, ending: Ending, sent_ps: int, now_ps: int) -> None:
        """Of what clients ask."""
        before = self.health.get((g, r), WELL)
        after = rules.request_ended(before, self.rule, ending, sent_ps / PICOSECONDS, now_ps / PICOSECONDS)
        if after is not before:
            self._keep(g, r, after)
            if after.state is not before.state:
                self._changed(g, r, before, now_ps)
            if after.state is not State.DOWN:
                return
            self._probe_later(g, r, now_ps)

    def started(self, r: int, now_ps: int) -> None:
        """An engine is to be sent to again, or for the first time."""
        self.draining.discard(r)
        for g in range(self._shape.gateways):
            if self._owns(g, r):
                self._keep(g, r, rules.started(now_ps / PICOSECONDS))
                self._probe_later(g, r, now_ps)
        self.apply(int(self._shape.pool[r]), now_ps)

    def drain(self, r: int, now_ps: int) -> None:
        """Nothing new for it."""
        self.draining.add(r)
        self.apply(int(self._shape.pool[r]), now_ps)

    def gateway_started(self, g: int, now_ps: int) -> None:
        """It knows nobody, and asks all."""
        for r in range(self._shape.engines):
            if self._owns(g, r):
                self._keep(g, r, rules.started(now_ps / PICOSECONDS))
                self._probe_later(g, r, now_ps)
            self.slow.discard((g, r))
        self._forget_slowness(g)
        for p in range(len(self._shape.begins) - 1):
            self.apply(p, now_ps)

    def _forget_slowness(self, g: int) -> None:
        ground, engines = self.hands.ground, self._shape.engines
        mine = slice(g * engines, (g + 1) * engines)
        ground.slow.slow[mine] = 0
        for column in (ground.slow.since_s, ground.slow.over_s, ground.slow.under_s):
            column[mine] = np.nan

    # --- probes

    def _probe_later(self, g: int, r: int, now_ps: int) -> None:
        if (g, r) in self._probed:
            return
        self._probed.add((g, r))
        delay_s = probe_delay_s(
            self.health.get((g, r), WELL),
            self.rule,
            replica=r,
            replicas=self._shape.engines,
            gateway=g,
            gateways=self._shape.gateways,
            shared_s=now_ps / PICOSECONDS,
        )
        self.calendar.at(now_ps + round(delay_s * PICOSECONDS), lambda at_ps: self._probe(g, r, at_ps))

    def _probe(self, g: int, r: int, now_ps: int) -> None:
        if not self._marks.open[g]:
            self._probed.discard((g, r))
            return
        alive = self._marks.alive[r]
        took_s = {UP: ANSWERED_S, GONE: 0.0, MUTE: self.probe_timeout_s}[int(alive)]
        ending = {UP: Ending.OK, GONE: Ending.REFUSED, MUTE: Ending.HANG}[int(alive)]
        self.calendar.at(
            now_ps + round(took_s * PICOSECONDS), lambda at_ps: self._answered(g, r, ending, at_ps)
        )

    def _answered(self, g: int, r: int, ending: Ending, now_ps: int) -> None:
        self._probed.discard((g, r))
        before = self.health.get((g, r), WELL)
        if ending is Ending.HANG and self._marks.alive[r] != MUTE:
            ending = Ending.CUT
        after = rules.probed(before, self.rule, ending, now_ps / PICOSECONDS)
        self._keep(g, r, after)
        if ending is Ending.OK:
            self._learn(g, r, now_ps)
        if after.state is not before.state:
            self._changed(g, r, before, now_ps)
        if self._needs_probes(g, r):
            self._probe_later(g, r, now_ps)

    def _needs_probes(self, g: int, r: int) -> bool:
        """Whether a probe could change anything."""
        return (
            self._is_slow(g, r)
            or self._marks.alive[r] != UP
            or self.health.get((g, r), WELL).state not in IN
            or self.health.get((g, r), WELL).misses > 0
        )

    def _learn(self, g: int, r: int, now_ps: int) -> None:
        """A probe tells the pace of one that nobody asks any more."""
        replica = self.hands.engines.replicas[r]
        step_ps = (
            int(replica.step_ps)
            if replica.tokens > 0
            else int(self.hands.engines.base_ps[replica.costs][1] * replica.slow_permille // 1000)
        )
        if step_ps <= 0:
            return
        columns = self.hands.columns(g, int(self._shape.pool[r]))
        at = g * self._shape.engines + r
        seconds = PROBE_TOKENS * step_ps / PICOSECONDS
        company = float(columns.active[at]) + 1
        _progressed(columns, at, PROBE_TOKENS, seconds, 0.0, int(columns.read_tokens[at]), company)

    # --- what follows

    def _keep(self, g: int, r: int, health: Health) -> None:
        at = g * self._shape.engines + r
        self._marks.inside[at] = health.state in IN
        if (
            health.state is State.UP
            and not health.failures
            and not health.misses
            and self._marks.alive[r] == UP
        ):
            self.health.pop((g, r), None)
            self._marks.watched[at] = 0
        else:
            self.health[g, r] = health
            self._marks.watched[at] = 1

    def _changed(self, g: int, r: int, before: Health, now_ps: int) -> None:
        after = self.health.get((g, r), WELL)
        if after.state is State.DOWN:
            self.events.append((now_ps / PICOSECONDS, "down", f"{g}:{r}"))
            self.hands.forget_prefixes(g, r)
        elif before.state in (State.DOWN, State.STARTING) and after.state in IN:
            self.events.append((now_ps / PICOSECONDS, "up", f"{g}:{r}"))
        p = int(self._shape.pool[r])
        self.apply_of(g, p, now_ps)
        if after.state is State.RECOVERING:
            self._ramp_later(g, p, now_ps)

    def _ramp_later(self, g: int, p: int, now_ps: int) -> None:
        if (g, p) in self._ramped:
            return
        self._ramped.add((g, p))
        self.calendar.at(now_ps + round(RAMP_EVERY_S * PICOSECONDS), lambda at_ps: self._ramp(g, p, at_ps))

    def _ramp(self, g: int, p: int, now_ps: int) -> None:
        self._ramped.discard((g, p))
        ramps = False
        for r in self._members(p):
            health = self.health.get((g, r))
            if health is not None and health.state is State.RECOVERING:
                settled = rules.settled(health, self.rule, now_ps / PICOSECONDS)
                self._keep(g, r, settled)
                ramps = ramps or settled.state is State.RECOVERING
        self.apply_of(g, p, now_ps)
        if ramps:
            self._ramp_later(g, p, now_ps)

    def apply(self, p: int, now_ps: int) -> None:
        """Set the shares of a pool's members at every gateway."""
        for g in range(self._shape.gateways):
            self.apply_of(g, p, now_ps)

    def apply_of(self, g: int, p: int, now_ps: int) -> None:
        """Each member's share: its weight, as its health and its pace allow."""
        if not self._marks.open[g]:
            return
        members = self._members(p)
        known = [self.health.get((g, r), WELL) for r in members]
        pools = len(self._shape.begins) - 1
        self._marks.expects[g * pools + p] = any(
            it.state is State.STARTING and not it.refused for it in known
        )
        shares = rules.shares(known, self.rule, now_ps / PICOSECONDS)
        for r, share in zip(members, shares, strict=True):
            is_out = r in self.draining or not self._owns(g, r)
            part = self.slow_rule.share if self._is_slow(g, r) else 1.0
            self.hands.set_share(g, r, 0.0 if is_out else share * part * float(self.weights[r]), now_ps)

    # --- slowness

    def judged(self, g: int, p: int, now_ps: int) -> None:
        """Somebody of a pool has become slow, or is no longer: shares follow, and probes tell its pace."""
        members = self._members(p)
        for r in members:
            is_slow = self._is_slow(g, r)
            if is_slow == ((g, r) in self.slow):
                continue
            self.events.append((now_ps / PICOSECONDS, "slow" if is_slow else "fast", f"{g}:{r}"))
            if is_slow:
                self.slow.add((g, r))
                self._probe_later(g, r, now_ps)
            else:
                self.slow.discard((g, r))
        self.apply_of(g, p, now_ps)

    def _is_slow(self, g: int, r: int) -> bool:
        return bool(self.hands.ground.slow.slow[g * self._shape.engines + r])

    # --- shorthands

    @property
    def weights(self) -> np.ndarray:
        return self.hands.weights

    @property
    def _shape(self):  # type: ignore[no-untyped-def]
        return self.hands.ground.shape

    @property
    def _marks(self):  # type: ignore[no-untyped-def]
        return self.hands.ground.marks

    def _members(self, p: int) -> range:
        return range(int(self._shape.begins[p]), int(self._shape.begins[p + 1]))

    def _owns(self, g: int, r: int) -> bool:
        return bool(self.hands.owned[g, r])
