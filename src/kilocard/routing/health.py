"""Whether a replica can be sent to, by what probes and requests have shown of it.

A busy engine is not a dead one, and a client's mistake says nothing of an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import NamedTuple

from kilocard.errors import KilocardError


class State(StrEnum):
    """What a replica is. It takes requests in all but the first and the last; SLOW is judged beside its
    pool, by `kilocard.routing.slow`."""

    STARTING = "starting"
    UP = "up"
    SLOW = "slow"
    RECOVERING = "recovering"
    DOWN = "down"


class Ending(StrEnum):
    """How a request or a probe ended, as the gateway saw it.

    OK: answered to its end. CLIENT: its own fault (4xx), or it hung up. BUSY: the engine says that it is
    full. REFUSED: nobody listens there. CUT: the connection or the stream broke, or an error stood in it.
    FAULT: any other 5xx. HANG: no byte came in time.
    """

    OK = "ok"
    CLIENT = "client"
    BUSY = "busy"
    REFUSED = "refused"
    CUT = "cut"
    FAULT = "fault"
    HANG = "hang"


ENGINES_OWN = frozenset({Ending.REFUSED, Ending.CUT, Ending.FAULT, Ending.HANG})
"""The endings that are held against an engine."""


def ending_of(http_status: int, retry_after: bool = False) -> Ending:
    """What the status of an answer says; a 503 with Retry-After is that of an engine which is full."""
    if http_status == 429 or (http_status == 503 and retry_after):
        return Ending.BUSY
    if 400 <= http_status < 500:
        return Ending.CLIENT
    return Ending.OK if 200 <= http_status < 300 else Ending.FAULT


@dataclass(frozen=True, slots=True)
class HealthRule:
    """When a replica falls and how it comes back.

    most_failures, most_misses: requests and probes in a row that bring it down.
    good_probes: probes in a row that bring it back; it then starts at `ramp_from` of its share and has all of
        it after `ramp_s`.
    calm_s: one that falls within this after it came back is tried ever more rarely.
    interval_s: between a gateway's probes of one that is up; `down_interval_s`, doubled at each failure up to
        `most_interval_s`, of one that is out.
    most_probes_per_s: of all gateways at all replicas together, in the mean.
    """

    most_failures: int = 3
    most_misses: int = 2
    good_probes: int = 2
    ramp_s: float = 10.0
    ramp_from: float = 0.1
    calm_s: float = 60.0
    interval_s: float = 5.0
    down_interval_s: float = 1.0
    most_interval_s: float = 30.0
    most_probes_per_s: float = 200.0

    def __post_init__(self) -> None:
        for name in ("most_failures", "most_misses", "good_probes"):
            if getattr(self, name) < 1:
                raise KilocardError(f"{name} is {getattr(self, name)}: give 1 or more")
        for name in ("interval_s", "down_interval_s", "most_interval_s", "most_probes_per_s"):
            if not 0 < getattr(self, name) < inf:
                raise KilocardError(f"{name} is {getattr(self, name)}: give a number above 0")
        for name in ("ramp_s", "calm_s"):
            if not 0 <= getattr(self, name) < inf:
                raise KilocardError(f"{name} is {getattr(self, name)}: give seconds of 0 or more")
        if not 0 < self.ramp_from <= 1:
            raise KilocardError(f"ramp_from is {self.ramp_from}: give a share above 0, at most 1")
        if self.most_interval_s < self.down_interval_s:
            raise KilocardError(
                f"most_interval_s {self.most_interval_s} is under down_interval_s {self.down_interval_s}: "
                "raise it"
            )


class Health(NamedTuple):
    """One replica's state since `since_s`, and what may change it.

    failures, misses: requests and probes in a row that failed. good: probes in a row that were answered while
    it was out. falls: how often it fell without a calm time between. tries: probes in a row that failed while
    it was out. back_s: when it came back; what was sent before that is not held against it. refused: nobody
    listened there when it fell, or since.
    """

    state: State
    since_s: float
    failures: int = 0
    misses: int = 0
    good: int = 0
    falls: int = 0
    tries: int = 0
    back_s: float = -inf
    refused: bool = False


def started(now_s: float) -> Health:
    """A replica that is known and has not answered yet: it takes nothing until a probe is answered."""
    return Health(State.STARTING, now_s)


def settled(health: Health, rule: HealthRule, now_s: float) -> Health:
    """The state after so much time: a ramp comes to its end."""
    if health.state is State.RECOVERING and now_s >= health.since_s + rule.ramp_s:
        return health._replace(state=State.UP, since_s=health.since_s + rule.ramp_s)
    return health


def probed(health: Health, rule: HealthRule, ending: Ending, now_s: float, alive: bool = False) -> Health:
    """A tiny completion of the gateway's own has ended.

    alive: a byte of another request came from the engine after the probe was sent: then silence is no death.
    """
    if ending is Ending.BUSY or (ending is Ending.HANG and alive):
        return health
    health = settled(health, rule, now_s)
    if health.state in (State.UP, State.RECOVERING):
        if ending is Ending.OK:
            return health._replace(misses=0) if health.misses else health
        health = health._replace(misses=health.misses + 1)
        falls = ending is Ending.REFUSED or health.misses >= rule.most_misses
        return _fallen(health, rule, ending, now_s) if falls else health
    if ending is not Ending.OK:
        return health._replace(good=0, tries=health.tries + 1, refused=ending is Ending.REFUSED)
    wanted = 1 if health.state is State.STARTING else rule.good_probes
    if health.good + 1 < wanted:
        return health._replace(good=health.good + 1, tries=0, refused=False)
    return Health(State.RECOVERING, now_s, falls=health.falls, back_s=now_s)


def request_ended(
    health: Health, rule: HealthRule, ending: Ending, sent_s: float, now_s: float, alive: bool = False
) -> Health:
    """A client's request that was sent to the replica at `sent_s` has ended; `alive` as in `probed`."""
    if health.state in (State.DOWN, State.STARTING):
        return health
    if ending is Ending.OK:
        return health._replace(failures=0, misses=0) if health.failures or health.misses else health
    if ending not in ENGINES_OWN or sent_s < health.back_s or (ending is Ending.HANG and alive):
        return health
    health = settled(health, rule, now_s)
    health = health._replace(failures=health.failures + 1)
    relapse = health.state is State.RECOVERING and health.falls > 0
    falls = ending is Ending.REFUSED or relapse or health.failures >= rule.most_failures
    return _fallen(health, rule, ending, now_s) if falls else health


def _fallen(health: Health, rule: HealthRule, ending: Ending, now_s: float) -> Health:
    calm = health.state is State.UP and now_s >= health.since_s + rule.calm_s
    falls = 1 if calm else health.falls + 1
    return Health(State.DOWN, now_s, falls=falls, back_s=health.back_s, refused=ending is Ending.REFUSED)


def share(health: Health, rule: HealthRule, now_s: float) -> float:
    """How much of its part it shall get: nothing while it is out, a growing part once it is back."""
    health = settled(health, rule, now_s)
    if health.state is State.RECOVERING:
        return rule.ramp_from + (1 - rule.ramp_from) * max(0.0, now_s - health.since_s) / rule.ramp_s
    return 1.0 if health.state is State.UP else 0.0


def in_panic(pool: Sequence[Health]) -> bool:
    """Nobody in the pool is well, and somebody in it has only been suspected: a connection came about."""
    return not any(it.state in (State.UP, State.RECOVERING) for it in pool) and any(map(_suspected, pool))


def shares(pool: Sequence[Health], rule: HealthRule, now_s: float) -> list[float]:
    """Those of a pool. Where all are out, all who are only suspected are used: the suspicion may be wrong,
    and nothing is lost by a try."""
    if in_panic(pool):
        return [float(_suspected(it)) for it in pool]
    return [share(it, rule, now_s) for it in pool]


def shown(health: Health, slow: bool) -> State:
    """The state that a person is shown."""
    return State.SLOW if slow and health.state in (State.UP, State.RECOVERING) else health.state


def _suspected(health: Health) -> bool:
    return health.state is State.DOWN and not health.refused
