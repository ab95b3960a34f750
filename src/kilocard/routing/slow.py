"""Replicas that are alive and slow: they get little until they are as fast as the others again.

A slow replica is worse than a dead one, for it takes requests and keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Any, NamedTuple

import numpy as np

from kilocard.engine_model.compiled import compiled, plain
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

    @property
    def bounds(self) -> Bounds:
        """What a look goes by."""
        return Bounds(*(float(getattr(self, name)) for name in Bounds._fields))


class Bounds(NamedTuple):
    """Of a `SlowRule`."""

    ratio: float
    recovered_ratio: float
    floor_s: float
    hold_s: float
    calm_s: float
    most_share: float
    trial_s: float
    restart_after_s: float


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


class Marks(NamedTuple):
    """A pool's slowness in columns, of numbers and NaN; `times` usual, `room` to sort in, and who is `chosen`
    to be slow, to be forgotten, to be started anew."""

    slow: Any
    since_s: Any
    over_s: Any
    under_s: Any
    times: Any
    room: Any
    chosen: Any
    forget: Any
    restart: Any


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
    marks = _marks(pool)
    tpot_s, load, seen_s, is_in = _columns(seen)
    _look_at(marks, tpot_s, load, seen_s, is_in, rule.bounds, now_s)
    after = [
        Slowness(bool(slow), *since) if slow or not isnan(since[1]) or not isnan(since[2]) else FAST
        for slow, *since in zip(marks.slow, marks.since_s, marks.over_s, marks.under_s, strict=True)
    ]
    return Judged(
        after, *([r for r, it in enumerate(column) if it] for column in (marks.forget, marks.restart))
    )


def times_usual(seen: Sequence[Paced], rule: SlowRule) -> list[float]:
    """Of each replica its TPOT ÷ the median of the others' at its load; 0 where that is surely under the mark
    of those that have recovered, or nothing can be said.

    A step takes a time that is fixed and one that grows with the load, so a replica of more load is allowed a
    TPOT that is larger in proportion, and no more: load alone makes nobody slow.
    """
    marks = _marks([FAST] * len(seen))
    tpot_s, load, _, is_in = _columns(seen)
    _find_times(marks, tpot_s, load, is_in, rule.bounds)
    return list(marks.times)


def _marks(pool: Sequence[Slowness]) -> Marks:
    slow, since_s, over_s, under_s = ([it[k] for it in pool] for k in range(len(FAST)))
    return Marks(
        slow,
        since_s,
        over_s,
        under_s,
        *([0.0] * len(pool) for _ in range(2)),
        *([0] * len(pool) for _ in range(3)),
    )


def _columns(seen: Sequence[Paced]) -> list[tuple[Any, ...]]:
    return [tuple(it[k] for it in seen) for k in range(len(Paced._fields))]


def new_marks(count: int) -> Marks:
    """Of so many that are fast, as arrays."""
    floats = [np.full(count, nan) for _ in range(5)]
    slow, *flags = (np.zeros(count, np.int8) for _ in range(4))
    return Marks(slow, *floats, *flags)


@compiled
def rows_of(marks: Marks, begin: int, end: int) -> Marks:
    """Some of them."""
    return Marks(
        marks.slow[begin:end],
        marks.since_s[begin:end],
        marks.over_s[begin:end],
        marks.under_s[begin:end],
        marks.times[begin:end],
        marks.room[begin:end],
        marks.chosen[begin:end],
        marks.forget[begin:end],
        marks.restart[begin:end],
    )


@compiled
def look_at(
    marks: Marks, tpot_s: Any, load: Any, seen_s: Any, is_in: Any, rule: Bounds, now_s: float
) -> bool:
    """Look at a pool again; returns whether somebody has become slow or is no longer."""
    find_times(marks, tpot_s, load, is_in, rule)
    find_since(marks, tpot_s, is_in, rule, now_s)
    choose(marks, is_in, rule, now_s)
    changed = False
    for r in range(len(tpot_s)):
        if marks.chosen[r] != marks.slow[r]:
            changed = True
            marks.slow[r] = marks.chosen[r]
            marks.since_s[r] = now_s if marks.chosen[r] else nan
            marks.over_s[r] = marks.under_s[r] = nan
        latest_s = max(seen_s[r], marks.since_s[r])
        is_known = tpot_s[r] > 0
        marks.forget[r] = 1 if marks.slow[r] and is_known and now_s >= latest_s + rule.trial_s else 0
        marks.restart[r] = 1 if marks.slow[r] and now_s >= marks.since_s[r] + rule.restart_after_s else 0
    return changed


@compiled
def find_times(marks: Marks, tpot_s: Any, load: Any, is_in: Any, rule: Bounds) -> None:
    """How many times what is usual each one takes."""
    known = 0
    for r in range(len(tpot_s)):
        marks.times[r] = 0.0
        if is_in[r] and tpot_s[r] > 0:
            marks.room[known] = tpot_s[r]
            known += 1
    if known < 2:
        return
    # Without one of them the median of the rest is no less than the one but last before the middle.
    least_s = nth(marks.room, known, max(0, (known - 1) // 2 - 1))
    for r in range(len(tpot_s)):
        if is_in[r] and tpot_s[r] >= least_s * rule.recovered_ratio:
            marks.times[r] = tpot_s[r] / usual_s(marks.room, tpot_s, load, is_in, r)


@compiled
def usual_s(room: Any, tpot_s: Any, load: Any, is_in: Any, mine: int) -> float:
    """The median of the others' TPOT, were their load as mine where that is more."""
    others = 0
    for r in range(len(tpot_s)):
        if r != mine and is_in[r] and tpot_s[r] > 0:
            room[others] = tpot_s[r] * max(1.0, (load[mine] + 1) / (load[r] + 1))
            others += 1
    middle = nth(room, others, others // 2)
    if others % 2:
        return middle
    return (nth(room, others, others // 2 - 1) + middle) / 2


@compiled
def nth(room: Any, count: int, n: int) -> float:
    """The n-th least, from 0, of the first so many numbers, which change places (Hoare's selection)."""
    low, high = 0, count - 1
    while low < high:
        pivot = room[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while room[i] < pivot:
                i += 1
            while pivot < room[j]:
                j -= 1
            if i <= j:
                room[i], room[j] = room[j], room[i]
                i += 1
                j -= 1
        if n <= j:
            high = j
        elif n >= i:
            low = i
        else:
            break
    return room[n]


@compiled
def find_since(marks: Marks, tpot_s: Any, is_in: Any, rule: Bounds, now_s: float) -> None:
    """Since when each is over one mark or under the other; where nothing is known of it, neither."""
    for r in range(len(tpot_s)):
        if not is_in[r]:
            marks.slow[r] = 0
            marks.since_s[r] = marks.over_s[r] = marks.under_s[r] = nan
            continue
        is_over = marks.times[r] > rule.ratio and tpot_s[r] > rule.floor_s
        is_under = tpot_s[r] > 0 and (marks.times[r] < rule.recovered_ratio or tpot_s[r] <= rule.floor_s)
        if not is_over:
            marks.over_s[r] = nan
        elif isnan(marks.over_s[r]):
            marks.over_s[r] = now_s
        if not is_under:
            marks.under_s[r] = nan
        elif isnan(marks.under_s[r]):
            marks.under_s[r] = now_s


@compiled
def choose(marks: Marks, is_in: Any, rule: Bounds, now_s: float) -> None:
    """Who shall be slow from now on: of those that are to be, the worst, as many as may."""
    wanted = inside = 0
    for r in range(len(is_in)):
        inside += 1 if is_in[r] else 0
        if marks.slow[r]:
            is_wanted = not now_s >= marks.under_s[r] + rule.calm_s
        else:
            is_wanted = now_s >= marks.over_s[r] + rule.hold_s
        marks.chosen[r] = 1 if is_wanted else 0
        marks.room[r] = badness(marks, rule, r)
        wanted += marks.chosen[r]
    most = int(rule.most_share * inside + 1e-9)
    while wanted > most:
        best = -1
        for r in range(len(is_in)):
            if marks.chosen[r] and (best < 0 or marks.room[r] <= marks.room[best]):
                best = r
        marks.chosen[best] = 0
        wanted -= 1


@compiled
def badness(marks: Marks, rule: Bounds, r: int) -> float:
    """One that is slow already leaves its place only to one that is clearly worse."""
    return max(marks.times[r], 1.0) * (rule.ratio / rule.recovered_ratio if marks.slow[r] else 1.0)


_look_at, _find_times = plain(look_at), plain(find_times)
