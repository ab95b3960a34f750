"""What becomes of a request that arrives: it is sent, it waits, or it is refused with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil, inf, isfinite

from kilocard.engine_model.compiled import compiled, plain
from kilocard.errors import KilocardError

LEAST_RETRY_S = 1
MOST_RETRY_S = 60
UNAVAILABLE_RETRY_S = 5

SENT, WAITS, NOBODY_SERVES, FULL, TOO_LONG = range(5)
"""What `decide` says."""


class Verdict(StrEnum):
    """What to do with it."""

    SEND = "send"
    WAIT = "wait"
    REFUSE = "refuse"


class Reason(StrEnum):
    """Why it was refused."""

    OVERLOADED = "overloaded"
    DEADLINE = "deadline"
    WAITED = "waited"
    UNAVAILABLE = "unavailable"
    RATE_LIMIT = "rate_limit"


@compiled
def most_waiting(rank: int, aged_share: float, per_s: float, ageing_s: float) -> float:
    """How many of a rank may wait for better ones: each waits about rank × ageing_s, so that as many as wait
    ÷ this come of age a second. One always may."""
    return max(1.0, aged_share * per_s * rank * ageing_s) if rank > 0 else inf


@compiled
def expected_wait(turns: int, per_s: float) -> float:
    """Seconds until so many have had their turn: nobody who comes later and goes first is counted, so this
    is the least that has to be expected."""
    if per_s > 0:
        return turns / per_s
    return inf if turns > 0 else 0.0


@compiled
def decide(
    serving: bool,
    room: bool,
    waiting: int,
    ahead: int,
    limit: int,
    per_s: float,
    alike: int,
    better: int,
    kept: int,
    most: float,
    max_wait_s: float,
) -> int:
    """What becomes of an arrival; `most` is `most_waiting` of its rank, the rest as in `admit`."""
    if not serving:
        return NOBODY_SERVES
    if room and ahead == 0:
        return SENT
    is_last = waiting >= limit and ahead == waiting and alike >= kept
    is_one_too_many = better > 0 and alike >= most
    if max_wait_s == 0 or is_last or is_one_too_many:
        return FULL
    return TOO_LONG if expected_wait(ahead + 1, per_s) > max_wait_s else WAITS


_most_waiting, _decide, _expected_wait = plain(most_waiting), plain(decide), plain(expected_wait)


@dataclass(frozen=True, slots=True)
class Priority:
    """A class of requests: its rank in the line (0 goes first), and the longest that it waits there.

    aged_share: of what the pool serves, the part that this class may take by its age from better ranks that
    wait too. Without it all that waits comes of age in the end, and a pool with three times what it can do
    would serve hardly any but the old.
    """

    name: str
    rank: int
    max_wait_s: float
    aged_share: float = 0.05

    def __post_init__(self) -> None:
        if self.rank < 0:
            raise KilocardError(
                f"the priority {self.name}: rank {self.rank}; give 0, which goes first, or more"
            )
        if not 0 <= self.max_wait_s < inf:
            raise KilocardError(
                f"the priority {self.name}: max_wait_s is {self.max_wait_s}; give the seconds that a request "
                "may wait, or 0 to refuse it at once where there is no room"
            )
        if not 0 < self.aged_share <= 1:
            raise KilocardError(
                f"the priority {self.name}: aged_share is {self.aged_share}; give a share above 0, at most 1"
            )

    def most_waiting(self, per_s: float, ageing_s: float) -> float:
        """How many may wait for better ones: each waits about rank × ageing_s, so that as many as wait ÷ this
        come of age a second. One always may."""
        return _most_waiting(self.rank, self.aged_share, per_s, ageing_s)


INTERACTIVE = Priority("interactive", 0, 10.0)
ASYNCHRONOUS = Priority("async", 1, 60.0)
BATCH = Priority("batch", 2, 600.0)
PRIORITIES = {priority.name: priority for priority in (INTERACTIVE, ASYNCHRONOUS, BATCH)}


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict; of a refusal the reason, the HTTP status and Retry-After too."""

    verdict: Verdict
    reason: Reason | None = None
    http_status: int = 200
    retry_after_s: int = 0


SEND = Decision(Verdict.SEND)
WAIT = Decision(Verdict.WAIT)


def admit(
    priority: Priority,
    *,
    serving: bool,
    room: bool,
    waiting: int,
    ahead: int,
    limit: int,
    per_s: float,
    alike: int = 0,
    better: int = 0,
    kept: int = 0,
    ageing_s: float = inf,
    chance: float = 0.0,
) -> Decision:
    """Decide about an arrival at a pool.

    serving: a replica of the pool can take requests, or soon will.
    room: a policy has named one that takes it now.
    waiting, ahead: how many wait, and how many of them are before it in order.
    limit: of the line; where the newcomer is not the last of a full line, it waits and the last is displaced.
    per_s: requests that the pool lately finished a second while others waited; infinite where unknown.
    alike, better: how many wait of its rank, and of better ones.
    kept, ageing_s: of the line, the places that are its rank's, and what a rank costs.
    chance: in [0, 1), spreads the clients that come back.
    """
    most = priority.most_waiting(per_s, ageing_s)
    told = _decide(
        serving, room, waiting, ahead, limit, per_s, alike, better, kept, most, priority.max_wait_s
    )
    if told == SENT:
        return SEND
    if told == WAITS:
        return WAIT
    if told == NOBODY_SERVES:
        return refusal(Reason.UNAVAILABLE, UNAVAILABLE_RETRY_S, chance)
    if told == FULL:
        return refusal(Reason.OVERLOADED, expected_wait_s(waiting, per_s), chance)
    return refusal(Reason.DEADLINE, expected_wait_s(ahead + 1, per_s) - priority.max_wait_s, chance)


def expected_wait_s(turns: int, per_s: float) -> float:
    """Until so many have had their turn: nobody who comes later and goes first is counted, so this is the
    least that has to be expected."""
    return _expected_wait(turns, per_s)


def refusal(reason: Reason, after_s: float, chance: float = 0.0) -> Decision:
    """Refused, to be tried again after `after_s` and, by chance, up to half as long again."""
    if not isfinite(after_s):
        after_s = MOST_RETRY_S
    spread_s = max(after_s, LEAST_RETRY_S) * (1 + chance / 2)
    status = 429 if reason is Reason.RATE_LIMIT else 503
    return Decision(Verdict.REFUSE, reason, status, min(MOST_RETRY_S, ceil(spread_s)))
