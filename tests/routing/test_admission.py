"""Sent, told to wait, or refused: who, when, and with what advice."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.routing.admission import (
    BATCH,
    INTERACTIVE,
    MOST_RETRY_S,
    PRIORITIES,
    SEND,
    WAIT,
    Decision,
    Priority,
    Reason,
    Verdict,
    admit,
    expected_wait_s,
    refusal,
)
from kilocard.routing.waiting import Line

PLENTY: dict[str, Any] = {"serving": True, "room": False, "waiting": 0, "ahead": 0, "limit": 10, "per_s": inf}


def asked(priority: Priority = INTERACTIVE, **more: Any) -> Decision:
    return admit(priority, **PLENTY | more)


arrivals = st.fixed_dictionaries(
    {
        "serving": st.booleans(),
        "room": st.booleans(),
        "waiting": st.integers(0, 20),
        "ahead": st.integers(0, 20),
        "limit": st.integers(0, 20),
        "per_s": st.sampled_from([0.0, 0.1, 1.0, 50.0, inf]),
        "alike": st.integers(0, 20),
        "better": st.integers(0, 2),
        "kept": st.integers(0, 3),
        "ageing_s": st.just(10.0),
        "chance": st.floats(0, 1, exclude_max=True),
    }
).map(lambda arrival: arrival | {"ahead": min(arrival["ahead"], arrival["waiting"])})
priorities = st.sampled_from(sorted(PRIORITIES)).map(PRIORITIES.__getitem__)


@given(priority=priorities, arrival=arrivals)
def test_each_verdict_has_its_ground(priority: Priority, arrival: dict[str, Any]) -> None:
    decision = asked(priority, **arrival)
    if decision is SEND:
        assert arrival["serving"] and arrival["room"] and arrival["ahead"] == 0
    elif decision is WAIT:
        assert arrival["serving"] and not (arrival["room"] and arrival["ahead"] == 0)
        assert expected_wait_s(arrival["ahead"] + 1, arrival["per_s"]) <= priority.max_wait_s
        is_last = arrival["waiting"] >= arrival["limit"] and arrival["ahead"] == arrival["waiting"]
        assert not is_last or arrival["alike"] < arrival["kept"]
        assert arrival["better"] == 0 or arrival["alike"] < priority.most_waiting(arrival["per_s"], 10.0)
    else:
        assert decision.verdict is Verdict.REFUSE and decision.http_status == 503
        assert 1 <= decision.retry_after_s <= MOST_RETRY_S
        if decision.reason is Reason.DEADLINE:
            assert expected_wait_s(arrival["ahead"] + 1, arrival["per_s"]) > priority.max_wait_s


@given(arrival=arrivals)
def test_who_can_be_served_now_is_never_refused(arrival: dict[str, Any]) -> None:
    assert asked(**arrival | {"serving": True, "room": True, "ahead": 0}) is SEND


@given(came=st.lists(st.tuples(st.integers(0, 50), priorities), max_size=50), limit=st.integers(0, 8))
def test_a_line_is_never_over_its_limit_and_keeps_the_first_in_order(
    came: list[tuple[int, Priority]], limit: int
) -> None:
    came.sort(key=lambda arrival: arrival[0])
    line: Line[int] = Line(limit, ageing_s=10)
    everybody: Line[int] = Line(1000, ageing_s=10)
    for number, (now_s, priority) in enumerate(came):
        everybody.push(number, now_s, priority.rank)
        ahead = line.ahead(now_s, priority.rank)
        decision = asked(priority, waiting=len(line), ahead=ahead, limit=limit)
        if decision is WAIT:
            assert line.push(number, now_s, priority.rank) != number
        else:
            assert decision.reason is Reason.OVERLOADED
        assert len(line) <= limit
    assert list(line) == list(everybody)[:limit]


def test_each_reason() -> None:
    full = {"waiting": 10, "ahead": 10, "per_s": 2.0}
    assert asked() is WAIT
    assert asked(room=True) is SEND
    assert asked(room=True, waiting=3, ahead=2) is WAIT
    assert asked(serving=False) == Decision(Verdict.REFUSE, Reason.UNAVAILABLE, 503, 5)
    assert asked(**full) == Decision(Verdict.REFUSE, Reason.OVERLOADED, 503, 5)
    assert asked(**full | {"ahead": 9}) is WAIT
    assert asked(BATCH, **full, limit=20) is WAIT
    assert asked(waiting=25, ahead=24, limit=100, per_s=2.0) == Decision(
        Verdict.REFUSE, Reason.DEADLINE, 503, 3
    )
    assert asked(BATCH, waiting=5, ahead=5, per_s=0.0).retry_after_s == MOST_RETRY_S
    assert asked(Priority("now or never", 0, 0.0)).reason is Reason.OVERLOADED
    assert refusal(Reason.RATE_LIMIT, 2.5) == Decision(Verdict.REFUSE, Reason.RATE_LIMIT, 429, 3)


def test_those_who_come_of_age_take_a_share_of_the_pace() -> None:
    """20 a second, a twentieth of it for each class: over 60 s of ageing 60 batch requests may wait."""
    behind = {"waiting": 200, "ahead": 200, "limit": 1000, "per_s": 20.0, "ageing_s": 30.0}
    assert BATCH.most_waiting(20.0, 30.0) == 60 and INTERACTIVE.most_waiting(20.0, 30.0) == inf
    assert asked(BATCH, **behind, better=1, alike=59) is WAIT
    assert asked(BATCH, **behind, better=1, alike=60).reason is Reason.OVERLOADED
    assert asked(BATCH, **behind, better=0, alike=500) is WAIT
    assert asked(BATCH, **behind | {"per_s": 0.01, "ahead": 0}, better=1, alike=0) is WAIT


def test_in_a_kept_place_a_request_waits_though_the_line_is_full() -> None:
    full = {"waiting": 10, "ahead": 10, "limit": 10}
    assert asked(BATCH, **full, alike=0, kept=1) is WAIT
    assert asked(BATCH, **full, alike=1, kept=1).reason is Reason.OVERLOADED


def test_those_who_come_back_do_not_come_together() -> None:
    advised = {refusal(Reason.OVERLOADED, 20, chance / 100).retry_after_s for chance in range(100)}
    assert advised == set(range(20, 31))


@pytest.mark.parametrize(
    ("rank", "max_wait_s", "aged_share"),
    [(-1, 1.0, 0.1), (0, -1.0, 0.1), (0, inf, 0.1), (0, float("nan"), 0.1), (1, 1.0, 0.0), (1, 1.0, 1.1)],
)
def test_a_priority_that_cannot_be_is_refused(rank: int, max_wait_s: float, aged_share: float) -> None:
    with pytest.raises(KilocardError, match=r"the priority odd: .* give"):
        Priority("odd", rank, max_wait_s, aged_share)
