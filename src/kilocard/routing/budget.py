"""How many second tries there may be: a failing pool is not asked twice by everybody."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf

from kilocard.errors import KilocardError

MOMENT = 1e-3
"""Of the memory: to forget a thousandth needs no exponential of its own."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Second tries are at most `share` of the requests of late, and `floor` more; `most` of any one request.

    What is a time ago counts as exp(−time ÷ memory_s), so over T seconds there are at most share × requests
    + floor × (1 + T ÷ memory_s).
    """

    share: float = 0.1
    floor: float = 3.0
    most: int = 2
    memory_s: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise KilocardError(f"a retry budget of {self.share}: give a share of the requests, 0 to 1")
        if not 0 <= self.floor < inf or self.most < 0:
            raise KilocardError(f"a floor of {self.floor} retries, {self.most} each: give 0 or more")
        if not 0 < self.memory_s < inf:
            raise KilocardError(f"memory_s is {self.memory_s}: give seconds above 0")


class RetryBudget:
    """Requests and second tries of late."""

    __slots__ = ("_at_s", "_requests", "_tries", "rule")

    def __init__(self, rule: RetryRule) -> None:
        self.rule = rule
        self._at_s = -inf
        self._requests = 0.0
        self._tries = 0.0

    def asked(self, now_s: float) -> None:
        """A request is tried for the first time. Of those within a moment all count as its first."""
        if now_s - self._at_s > MOMENT * self.rule.memory_s:
            self._forget(now_s)
        self._requests += 1

    def may_retry(self, now_s: float, tries: int, began: bool) -> bool:
        """Whether one that has been tried again `tries` times so far may be once more, and if so counts it;
        never once a byte of its answer has begun to come."""
        self._forget(now_s)
        allowed = self.rule.share * self._requests + self.rule.floor
        if began or tries >= self.rule.most or self._tries + 1 > allowed:
            return False
        self._tries += 1
        return True

    def _forget(self, now_s: float) -> None:
        kept = exp(-max(0.0, now_s - self._at_s) / self.rule.memory_s)
        self._requests *= kept
        self._tries *= kept
        self._at_s = max(self._at_s, now_s)
