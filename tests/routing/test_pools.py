"""Pools: each request in its own, and lending goes one way and leaves a guard."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.routing.pools import OFFLINE, ROLES, PoolNow, PoolRule, lends, place, role_for

RULE = PoolRule(long_tokens=1000)
pools = st.builds(
    PoolNow,
    role=st.sampled_from(ROLES),
    room=st.booleans(),
    waiting=st.integers(0, 2),
    active=st.integers(0, 12),
    capacity=st.integers(0, 12),
)


@given(home=pools, lenders=st.lists(pools, max_size=4), guard=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_lending_goes_one_way_and_takes_only_what_is_idle(
    home: PoolNow, lenders: list[PoolNow], guard: float
) -> None:
    chosen = place(home, lenders, PoolRule(guard=guard))
    assert (chosen == 0) == home.room
    if chosen > 0:
        lender = lenders[chosen - 1]
        assert home.role not in OFFLINE and lender.role in OFFLINE
        assert lender.room and lender.waiting == 0
        assert lender.active + 1 <= lender.capacity * (1 - guard) + 1e-9
    elif chosen < 0 and home.role not in OFFLINE:
        assert not any(lends(lender, PoolRule(guard=guard)) for lender in lenders)


doings = st.lists(st.sampled_from(["online", "offline", "online ends", "offline ends"]), max_size=150)


@given(doings=doings, guard=st.sampled_from([0.1, 0.25, 0.5]))
def test_over_time_the_guard_is_never_lent_and_nobody_online_serves_the_offline(
    doings: list[str], guard: float
) -> None:
    """Pools of 4 and 8: where each request runs, by whose it is."""
    caps = {"chat": 4, "batch": 8}
    runs = {"chat": {"online": 0, "offline": 0}, "batch": {"online": 0, "offline": 0}}
    waiting = {"chat": 0, "batch": 0}
    rule = PoolRule(guard=guard)

    def now(role: str) -> PoolNow:
        active = sum(runs[role].values())
        return PoolNow(role, active < caps[role], waiting[role], active, caps[role])

    for doing in doings:
        whose, _, ends = doing.partition(" ")
        home, other = ("chat", "batch") if whose == "online" else ("batch", "chat")
        if ends:
            ran = next((role for role in (other, home) if runs[role][whose]), None)
            if ran:
                runs[ran][whose] -= 1
            continue
        chosen = place(now(home), [now(other)], rule)
        if chosen < 0:
            waiting[home] += 1
        else:
            runs[(home, other)[chosen]][whose] += 1
        assert runs["chat"]["offline"] == 0
        assert runs["batch"]["online"] <= caps["batch"] * (1 - guard)


@given(
    roles=st.sets(st.sampled_from(ROLES), min_size=1),
    tokens=st.integers(0, 2000),
    is_batch=st.booleans(),
    is_multimodal=st.booleans(),
)
def test_a_request_belongs_where_it_is_meant(
    roles: set[str], tokens: int, is_batch: bool, is_multimodal: bool
) -> None:
    role = role_for(roles, RULE, tokens, is_batch=is_batch, is_multimodal=is_multimodal)
    assert role in roles
    if "long" in roles and "chat" in roles:
        assert (role == "long") == (tokens >= RULE.long_tokens)
    if "batch" in roles and is_batch:
        assert role != "chat"
    if "chat" in roles and not is_batch:
        assert role not in OFFLINE


def test_without_a_bound_nothing_is_long() -> None:
    assert role_for({"chat", "long"}, PoolRule(), 10**9) == "chat"
    assert role_for({"long", "batch"}, RULE, 10) == "long"


def test_a_pool_without_caps_lends_nothing() -> None:
    assert not lends(PoolNow("batch", room=True, waiting=0, active=0, capacity=0), RULE)
    assert lends(PoolNow("batch", room=True, waiting=0, active=0, capacity=8), RULE)


@pytest.mark.parametrize(
    "wrong", [lambda: PoolRule(long_tokens=-1), lambda: PoolRule(guard=1.1), lambda: role_for([], RULE, 1)]
)
def test_what_cannot_be_is_refused(wrong: Any) -> None:
    with pytest.raises(KilocardError, match=r"give|add"):
        wrong()
