"""Replicas that are alive and slow: they get little until they are as fast as the others again.

A slow replica is worse than a dead one, for it takes requests and keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from statistics import median
from typing import NamedTuple

from kilocard.errors import KilocardError


@dataclass(frozen=True, slots=True)
class SlowRule:
    """When a replica is slow, and when no longer.

    It is slow once its rolling TPOT was over `ratio` × what is usual in its pool at its load, and over
    `floor_s`, for `hold_s`; no longer once it was under `recovered_ratio` × that for `calm_s`. Meanwhile it
    gets `share` of its part. At most `most_share` of those that are in are slow at once, the worst of them.
    One that was asked nothing for `trial_s` has its TPOT forgotten, or no policy would ever ask it again; one
    that is slow for `restart_after_s` had better be started anew.
    """

    ratio: float = 2.0
    recovered_ratio: float = 1.5
    floor_s: float = 0.02
    hold_s: float = 3.0
    calm_s: float = 10.0
    share: float = 0.2
    most_share: float = 0.3
    trial_s: float = 15.0
    restart_after_s: float = 60.0

    def __post_init__(self) -> None:
        if not 1 < self.recovered_ratio < self.ratio < inf:
            raise KilocardError(
                f"slow over {self.ratio} and recovered under {self.recovered_ratio} of what is usual: give a "
                "ratio above recovered_ratio, and that above 1"
            )
        for name in ("floor_s", "hold_s", "calm_s", "restart_after_s"):
            if not 0 <= getattr(self, name) < inf:
                raise KilocardError(f"{name} is {getattr(self, name)}: give seconds of 0 or more")
        if not 0 < self.trial_s < inf:
            raise KilocardError(f"trial_s is {self.trial_s}: give seconds above 0")
        for name in ("share", "most_share"):
            if not 0 < getattr(self, name) <= 1:
                raise KilocardError(f"{name} is {getattr(self, name)}: give a share above 0, at most 1")


class Paced(NamedTuple):
    """What is seen of a replica: rolling seconds a token (0: nothing known), its load (requests in flight,
    better their mean over the last seconds), when a token last came, whether it is in."""

    tpot_s: float
    load: float
    seen_s: float
    is_in: bool


class Slowness(NamedTuple):
    """One replica's: whether it is slow, since when, and since when it is over or under the mark (NaN where
    it is not)."""

    slow: bool = False
    since_s: float = nan
    over_s: float = nan
    under_s: float = nan


FAST = Slowness()


class Judged(NamedTuple):
    """The pool after a look at it; the numbers of those whose TPOT is to be forgotten, and of those that had
    better be restarted."""

    pool: list[Slowness]
    forget: list[int]
    restart: list[int]

    def shares(self, rule: SlowRule) -> list[float]:
        """How much of its part each shall get."""
        return [rule.share if it.slow else 1.0 for it in self.pool]


def judge(pool: Sequence[Slowness], rule: SlowRule, seen: Sequence[Paced], now_s: float) -> Judged:
    """Look at a pool again, every second or so."""
    times = times_usual(seen, rule)
    marked = [
        _marked(it, rule, paced, ratio, now_s) for it, paced, ratio in zip(pool, seen, times, strict=True)
    ]
    wanted = sorted(
        (r for r, it in enumerate(marked) if _to_be_slow(it, rule, seen[r], now_s)),
        key=lambda r: -_badness(marked[r], rule, times[r]),
    )
    chosen = set(wanted[: int(rule.most_share * sum(it.is_in for it in seen) + 1e-9)])
    after = [_changed(it, r in chosen, now_s) for r, it in enumerate(marked)]
    slow = [r for r, it in enumerate(after) if it.slow]
    return Judged(
        after,
        [
            r
            for r in slow
            if seen[r].tpot_s > 0 and now_s >= max(seen[r].seen_s, after[r].since_s) + rule.trial_s
        ],
        [r for r in slow if now_s >= after[r].since_s + rule.restart_after_s],
    )


def times_usual(seen: Sequence[Paced], rule: SlowRule) -> list[float]:
    """Of each replica its TPOT ÷ the median of the others' at its load; 0 where that is surely under the mark
    of those that have recovered, or nothing can be said.

    A step takes a time that is fixed and one that grows with the load, so a replica of more load is allowed a
    TPOT that is larger in proportion, and no more: load alone makes nobody slow.
    """
    known = [r for r, it in enumerate(seen) if it.is_in and it.tpot_s > 0]
    if len(known) < 2:
        return [0.0] * len(seen)
    # Without one of them the median of the rest is no less than the one but last before the middle.
    least_s = sorted(seen[r].tpot_s for r in known)[max(0, (len(known) - 1) // 2 - 1)]
    return [
        _times_usual(seen, known, r) if it.is_in and it.tpot_s >= least_s * rule.recovered_ratio else 0.0
        for r, it in enumerate(seen)
    ]


def _times_usual(seen: Sequence[Paced], known: Sequence[int], r: int) -> float:
    mine = seen[r]
    at_my_load = (
        seen[other].tpot_s * max(1.0, (mine.load + 1) / (seen[other].load + 1))
        for other in known
        if other != r
    )
    return mine.tpot_s / median(at_my_load)


def _marked(it: Slowness, rule: SlowRule, paced: Paced, ratio: float, now_s: float) -> Slowness:
    """Since when it is over one mark or under the other; where nothing is known of it, neither."""
    if not paced.is_in:
        return FAST
    over = ratio > rule.ratio and paced.tpot_s > rule.floor_s
    under = paced.tpot_s > 0 and (ratio < rule.recovered_ratio or paced.tpot_s <= rule.floor_s)
    return it._replace(
        over_s=_since(it.over_s, over, now_s),
        under_s=_since(it.under_s, under, now_s),
    )


def _since(before_s: float, holds: bool, now_s: float) -> float:
    if not holds:
        return nan
    return now_s if isnan(before_s) else before_s


def _to_be_slow(it: Slowness, rule: SlowRule, paced: Paced, now_s: float) -> bool:
    if it.slow:
        return not now_s >= it.under_s + rule.calm_s
    return now_s >= it.over_s + rule.hold_s


def _badness(it: Slowness, rule: SlowRule, ratio: float) -> float:
    """One that is slow already leaves its place only to one that is clearly worse."""
    return max(ratio, 1.0) * (rule.ratio / rule.recovered_ratio if it.slow else 1.0)


def _changed(it: Slowness, slow: bool, now_s: float) -> Slowness:
    if slow == it.slow:
        return it
    return Slowness(True, now_s) if slow else FAST
