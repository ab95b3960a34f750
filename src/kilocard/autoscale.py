"""How many replicas a pool should have: by what it does, by what it is asked, or by what it will be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, nan

from kilocard.errors import KilocardError


@dataclass(frozen=True, slots=True)
class ScaleRule:
    """Between `least` and `most`. Up by `up_step` when the use of caps is over `up_use` and the line has
    grown for `grows_s`; no second time before `cold_start_s` is over. Down by `down_step` when the use was
    under `down_use` for `down_for_s`, counted anew after each."""

    least: int
    most: int
    up_use: float = 0.85
    grows_s: float = 30.0
    up_step: int = 1
    down_use: float = 0.30
    down_for_s: float = 1800.0
    down_step: int = 1
    cold_start_s: float = 300.0

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise KilocardError(f"a pool of {self.least} to {self.most} replicas: give 1 or more, then more")
        if not 0 <= self.down_use < self.up_use:
            raise KilocardError(
                f"down under {self.down_use:g} and up over {self.up_use:g} of the caps: the first has to be "
                "less, or the pool goes up and down without end"
            )


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What is seen of a pool: requests in flight and waiting, the sum of the caps of those that serve, and
    requests that came in a second."""

    in_flight: int
    waiting: int
    capacity: int
    per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Scaler:
    """What is remembered between two looks: since when the line grows and the pool is idle, when it was
    scaled up last, how many waited before."""

    grows_since_s: float = nan
    idle_since_s: float = nan
    scaled_s: float = -inf
    waited: int = 0


def by_use(scaler: Scaler, rule: ScaleRule, use: PoolUse, wanted: int, now_s: float) -> tuple[Scaler, int]:
    """The scaler and the number of replicas after one look, by utilization and the line."""
    share = use.in_flight / use.capacity if use.capacity else inf if use.waiting else 0.0
    grows = share > rule.up_use and use.waiting > 0 and use.waiting >= scaler.waited
    grows_since_s = _since(scaler.grows_since_s, grows, now_s)
    idle_since_s = _since(scaler.idle_since_s, share < rule.down_use and use.waiting == 0, now_s)
    after = Scaler(grows_since_s, idle_since_s, scaler.scaled_s, use.waiting)
    if now_s >= grows_since_s + rule.grows_s and now_s >= scaler.scaled_s + rule.cold_start_s:
        return replace(after, scaled_s=now_s, grows_since_s=nan), min(rule.most, wanted + rule.up_step)
    if now_s >= idle_since_s + rule.down_for_s:
        return replace(after, idle_since_s=now_s), max(rule.least, wanted - rule.down_step)
    return after, wanted


def by_rate(
    scaler: Scaler, rule: ScaleRule, use: PoolUse, wanted: int, now_s: float, *, per_replica_s: float
) -> tuple[Scaler, int]:
    """By requests a second, of which a replica is thought to bear so many: up at once, down after
    `down_for_s`."""
    asked = min(rule.most, max(rule.least, ceil(use.per_s / per_replica_s)))
    idle_since_s = _since(scaler.idle_since_s, asked < wanted, now_s)
    after = replace(scaler, idle_since_s=idle_since_s)
    if asked > wanted:
        return after, asked
    if now_s >= idle_since_s + rule.down_for_s:
        return replace(after, idle_since_s=now_s), asked
    return after, wanted


def by_forecast(rule: ScaleRule, needs: Sequence[float]) -> int:
    """By what will be needed while a replica that is started now comes up: the most of it, in replicas."""
    return min(rule.most, max(rule.least, ceil(max(needs, default=rule.least))))


def _since(before_s: float, holds: bool, now_s: float) -> float:
    if not holds:
        return nan
    return now_s if before_s != before_s else before_s
