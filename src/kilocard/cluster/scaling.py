"""Who adds and removes engines of a simulated cluster, by the rules of `kilocard.autoscale`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kilocard.autoscale import PoolUse, Scaler, ScaleRule, by_forecast, by_rate, by_use
from kilocard.cluster.calendar import Calendar
from kilocard.cluster.hands import Hands
from kilocard.cluster.life import Life
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.lifecycle import Phase
from kilocard.specs.cluster import Pool
from kilocard.specs.scenario import Scenario

LOOK_S = 10.0
RATE_OVER_S = 60.0
TARGET_USE = 0.6
"""Of the caps: by rate or forecast a pool is sized so that it is used to this share."""


@dataclass(slots=True)
class Scaling:
    """Looks at each pool that the file scales, every few seconds, as an autoscaler does."""

    scenario: Scenario
    hands: Hands
    life: Life
    calendar: Calendar
    scalers: dict[int, Scaler] = field(default_factory=dict)

    def begin(self) -> None:
        """From the start on."""
        self.scalers = {p: Scaler() for p, pool in enumerate(self.scenario.cluster.pools) if pool.scaling}
        if self.scalers:
            self.calendar.at_s(LOOK_S, self._look)

    def _look(self, now_ps: int) -> None:
        self.calendar.at(now_ps + round(LOOK_S * PICOSECONDS), self._look)
        now_s = now_ps / PICOSECONDS
        for p, before in self.scalers.items():
            rule, wanted = scale_rule(self.scenario.cluster.pools[p]), self.life.count(p)
            use = self._use(p, now_ps)
            match self.scenario.scale_by:
                case "rate":
                    per_s = self._per_replica_s(p)
                    after, count = by_rate(before, rule, use, wanted, now_s, per_replica_s=per_s)
                case "forecast":
                    after, count = before, by_forecast(rule, self._needs(p, now_ps, rule))
                case _:
                    after, count = by_use(before, rule, use, wanted, now_s)
            self.scalers[p] = after
            if count != wanted:
                self.life.events.append((now_s, "scale", f"{self.scenario.cluster.pools[p].name} {count}"))
                self.life.scale(p, count, now_ps)

    def _use(self, p: int, now_ps: int) -> PoolUse:
        ground, shape = self.hands.ground, self.hands.ground.shape
        begin, end = (int(it) for it in shape.begins[p : p + 2])
        active = ground.views.columns.active.reshape(shape.gateways, shape.engines)[:, begin:end]
        serving = [
            self.hands.caps[begin + k]
            for k, slot in enumerate(self.life.slots[begin:end])
            if slot.phase is Phase.SERVING
        ]
        pools = len(shape.begins) - 1
        waiting = int(ground.lines.counts.reshape(shape.gateways, pools, -1)[:, p].sum())
        return PoolUse(int(active.sum()), waiting, int(sum(serving)), self._per_s(p, now_ps))

    def _per_s(self, p: int, now_ps: int, ahead_s: float = 0.0) -> float:
        """Requests a second for a pool that came lately, or that come from now on: the forecast is a true
        one."""
        order = self.hands.agenda.arrivals
        times = self.hands.arrival_ps
        span_ps = round((ahead_s or RATE_OVER_S) * PICOSECONDS)
        first, last = (now_ps, now_ps + span_ps) if ahead_s else (max(0, now_ps - span_ps), now_ps)
        low, high = np.searchsorted(times, [first, last])
        mine = int((self.hands.ground.books.home[order[low:high]] == p).sum())
        return mine / max(1e-9, (last - first) / PICOSECONDS)

    def _per_replica_s(self, p: int) -> float:
        """Requests a second that one replica bears, were each to hold a place for as long as those of
        late."""
        requests, books = self.hands.engines.tables.requests, self.hands.ground.books
        upto = int(self.hands.agenda.counts[0])
        order = self.hands.agenda.arrivals[max(0, upto - 20_000) : upto]
        done = order[(books.status[order] == 1) & (books.home[order] == p)]
        if not len(done):
            return float("inf")
        took_s = float(np.mean(requests.last_ps[done] - books.sent_ps[done])) / PICOSECONDS
        cap = float(self.hands.caps[int(self.hands.ground.shape.begins[p])])
        return TARGET_USE * cap / max(took_s, 1e-9)

    def _needs(self, p: int, now_ps: int, rule: ScaleRule) -> list[float]:
        per_replica_s = self._per_replica_s(p)
        return [self._per_s(p, now_ps, ahead_s) / per_replica_s for ahead_s in (60.0, rule.cold_start_s)]


def scale_rule(pool: Pool) -> ScaleRule:
    """As the file has it."""
    own = pool.scaling
    assert own is not None
    return ScaleRule(
        least=own.least,
        most=own.most,
        up_use=own.up.utilization,
        grows_s=own.up.grows_s,
        up_step=own.up.step,
        down_use=own.down.utilization,
        down_for_s=own.down.for_s,
        down_step=own.down.step,
        cold_start_s=own.cold_start_s,
    )
