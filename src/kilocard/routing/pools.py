"""Which pool a request belongs to, and when it may use another's idle replicas."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kilocard.engine_model.compiled import compiled, plain
from kilocard.errors import KilocardError

ROLES = ("chat", "multimodal", "long", "batch", "buffer")
"""In the order in which they stand in where there is none of the role that is meant."""
OFFLINE = frozenset({"batch", "buffer"})
"""Roles that lend to the others, and never borrow."""


@dataclass(frozen=True, slots=True)
class PoolRule:
    """`long_tokens`: a request of so many, prompt and the most that may be written, is a long one (0: none
    is). `guard`: the share of an offline pool's capacity that stays free for its own requests."""

    long_tokens: int = 0
    guard: float = 0.1

    def __post_init__(self) -> None:
        if self.long_tokens < 0:
            raise KilocardError(f"long_tokens is {self.long_tokens}: give 1 or more, or 0 for no such bound")
        if not 0 <= self.guard <= 1:
            raise KilocardError(f"a guard of {self.guard}: give a share of the capacity, 0 to 1")


class PoolNow(NamedTuple):
    """A pool at this moment: whether a policy names one of its replicas for the request at hand, how many
    wait in its line, the requests in flight, and the sum of its caps (0: it has none)."""

    role: str
    room: bool
    waiting: int
    active: int
    capacity: int


def role_for(
    roles: Collection[str],
    rule: PoolRule,
    tokens: int,
    *,
    is_batch: bool = False,
    is_multimodal: bool = False,
) -> str:
    """The role of the pool that a request belongs to, among those that there are, whatever their load."""
    wanted = (
        ("long", 0 < rule.long_tokens <= tokens),
        ("multimodal", is_multimodal),
        ("batch", is_batch),
        ("chat", True),
    )
    if not roles:
        raise KilocardError("there is no pool for this model: add one to the cluster file")
    for role, fits in wanted:
        if fits and role in roles:
            return role
    return next((role for role in ROLES if role in roles), min(roles))


@compiled
def is_idle(waiting: int, active: int, capacity: int, guard: float) -> bool:
    """Whether a pool has something to lend: nobody waits for it, and with one request more the guard is still
    free. One without caps has not, for nobody knows when it is idle."""
    return waiting == 0 and capacity > 0 and capacity - active - 1 >= guard * capacity


_is_idle = plain(is_idle)


def lends(lender: PoolNow, rule: PoolRule) -> bool:
    """Whether an offline pool has something idle, and a policy names a replica of it."""
    idle = _is_idle(lender.waiting, lender.active, lender.capacity, rule.guard)
    return lender.role in OFFLINE and lender.room and idle


def place(home: PoolNow, lenders: Sequence[PoolNow], rule: PoolRule) -> int:
    """Where a request of `home` goes: 0 to its own pool, k to the k-th lender, −1 nowhere yet: it waits at
    home. An offline pool borrows of nobody."""
    if home.room:
        return 0
    if home.role not in OFFLINE:
        for number, lender in enumerate(lenders, start=1):
            if lends(lender, rule):
                return number
    return -1
