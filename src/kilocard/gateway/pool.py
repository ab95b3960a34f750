"""Replicas that may stand in for each other: their table, the policy that chooses, and what they hold."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import plain
from kilocard.errors import KilocardError, near_match
from kilocard.gateway.member import Member
from kilocard.routing import observe, prefixes
from kilocard.routing.chance import new_random
from kilocard.routing.policies import POLICIES, REFERENCE, compile_policy
from kilocard.routing.replicas import Arrival, Policy, Replicas, new_replicas, with_another, without

Ints = NDArray[np.int64]
Mark = tuple[int, float]
"""Prompt tokens that an engine had read, and seconds that its requests had been in flight, both of all."""
MOST_TOLD = 16
"""Faults of one policy: more of them say no more."""


_sent, _began, _progressed = plain(observe.sent), plain(observe.began), plain(observe.progressed)
_ended, _settle = plain(observe.ended), plain(observe.settle)
_requests_s, _mean_company = plain(observe.requests_s), plain(observe.mean_company)
_set_share, _set_cap = plain(observe.set_share), plain(observe.set_cap)
_compiled, _prefixes = cache(compile_policy), cache(prefixes.in_machine_code)
"""Once a process: to compile takes the better part of a second, in which no stream goes on."""


def compiled_policy(policy: str | Policy) -> Policy:
    """A policy by its name, or a user's own, in machine code; KilocardError where there is none."""
    chosen = POLICIES.get(policy) if isinstance(policy, str) else policy
    if chosen is None:
        raise KilocardError(f"gateway.policy: unknown policy {policy!r}: {near_match(str(policy), POLICIES)}")
    return _compiled(chosen)


class Pool:
    """The members' rows change when one leaves; nobody outside keeps a row's number."""

    def __init__(self, name: str, model: str, policy: str | Policy, seed: int) -> None:
        self.name, self.model = name, model
        self.members: list[Member] = []
        self._set_table(new_replicas(0))
        self._held = prefixes.new_held(0)
        self._random = new_random(seed)
        self._find, self._remember, self._forget = _prefixes()
        self._has_found = False
        self._policy: str | Policy | None = None
        self.set_policy(policy)

    def set_policy(self, policy: str | Policy) -> None:
        """From now on."""
        if policy == self._policy:
            return
        self._policy, self._choose, self._told = policy, compiled_policy(policy), set[str]()
        self._spare = _compiled(POLICIES[REFERENCE])

    def add(self, member: Member) -> None:
        """A replica joins."""
        member.row = len(self.members)
        self.members.append(member)
        self._set_table(with_another(self.replicas))
        held = prefixes.new_held(1)
        self._held = prefixes.Held(*(np.concatenate(pair) for pair in zip(self._held, held, strict=True)))
        _set_cap(self.replicas, member.row, member.cap)
        _set_share(self.replicas, member.row, member.weight)

    def remove(self, member: Member) -> None:
        """One that has nothing in flight leaves."""
        gone = member.row
        self.members.remove(member)
        self._set_table(without(self.replicas, gone))
        self._held = prefixes.Held(*(np.delete(table, gone, axis=0) for table in self._held))
        for row, other in enumerate(self.members):
            other.row = row

    def choose(self, arrival: Arrival, keys: Ints, ends: Ints, but: Sequence[Member] = ()) -> Member | None:
        """The replica that the policy names among those with room, if it names one."""
        replicas, members = self.replicas, self.members
        if not members:
            return None
        if len(keys):
            self._find(self._held, keys, ends, replicas.cached_tokens)
            self._has_found = True
        elif self._has_found:
            replicas.cached_tokens[:] = 0
            self._has_found = False
        barred = [member for member in but if member in members] if but else ()
        for member in barred:
            replicas.weight[member.row] = 0.0
        try:
            r = self._choose(replicas, arrival, self._random)
        except Exception as error:  # a user's own may fail in any way
            self._tell(error)
            r = self._spare(replicas, arrival, self._random)
        chosen = members[r] if 0 <= r < len(members) and self._cells.weight[r] > 0 else None
        for member in barred:
            _settle(replicas, member.row)
        return chosen

    def _tell(self, error: Exception) -> None:
        """Once for each fault: the requests go on."""
        if repr(error) not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(repr(error))
            message = f"the policy of the pool {self.name} failed, {REFERENCE} stands in; this is told once"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})

    def remember(self, member: Member, keys: Ints, ends: Ints) -> None:
        """Its cache will hold this prompt."""
        self._remember(self._held, member.row, keys, ends)

    def forget(self, member: Member) -> None:
        """Its engine was started anew: what its cache held is gone."""
        self._forget(self._held, member.row)

    def sent(self, member: Member, arrival: Arrival, now_s: float) -> int:
        """Count a request that leaves; returns the prompt tokens that wait for a first token."""
        return _sent(self._cells, member.row, arrival, now_s)

    def mark(self, member: Member, now_s: float) -> Mark:
        """To say, later, what went on at it meanwhile."""
        return int(self._cells.read_tokens[member.row]), _requests_s(self._cells, member.row, now_s)

    def began(self, member: Member, uncached: int, waited_s: float, before: Mark) -> None:
        """Its first token came."""
        _began(self._cells, member.row, uncached, waited_s, before[0])

    def progressed(
        self, member: Member, tokens: int, seconds: float, expected: float, before: Mark, now_s: float
    ) -> None:
        """More tokens came, `seconds` after the one before them, at which `before` was marked."""
        company = _mean_company(self._cells, member.row, before[1], seconds, now_s)
        _progressed(self._cells, member.row, tokens, seconds, expected, before[0], company)

    def ended(self, member: Member, uncached: int, expected: float, now_s: float) -> None:
        """It is over."""
        _ended(self._cells, member.row, uncached, expected, now_s)

    def set_share(self, member: Member, share: float) -> None:
        """How much of its part a replica shall get."""
        _set_share(self.replicas, member.row, share)

    def set_cap(self, member: Member, cap: int) -> None:
        """The most in flight."""
        member.cap = cap
        _set_cap(self.replicas, member.row, cap)

    def _set_table(self, replicas: Replicas) -> None:
        """One row is read and written faster through views of the columns than in arrays."""
        self.replicas = replicas
        self._cells = Replicas(*(cast(Any, memoryview(cast(Any, column))) for column in replicas))

    @property
    def load(self) -> tuple[int, int]:
        """Requests in flight, and the sum of the caps of those that may be used (0 where one has none)."""
        used = self.replicas.share > 0
        caps = self.replicas.cap[used]
        capacity = int(caps.sum()) if len(caps) and caps.all() else 0
        return int(self.replicas.active[used].sum()), capacity

    def active(self, member: Member) -> int:
        """In flight."""
        return int(self.replicas.active[member.row])
