"""A roll in time: a pool goes on serving while it changes, and comes to its end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.lifecycle import (
    Order,
    Phase,
    RollRule,
    Rules,
    Seen,
    Slot,
    batch_size,
    due_again,
    due_by_age,
    let_go,
    may_leave,
    step,
)

RULES = Rules(ready_within_s=60, drain_s=30)


def a_pool(count: int, **changes: object) -> list[Slot]:
    slot = Slot("", "p", wants="a", runs="a", phase=Phase.SERVING, since_s=-1000.0)
    return [replace(slot, name=f"p-{k}", **changes) for k in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "size"), [(1, 1), (2, 1), (3, 1), (7, 1), (8, 2), (12, 3), (100, 25)])
def test_a_batch_is_a_quarter_and_one_at_least(count: int, size: int) -> None:
    assert batch_size(count, 0.25) == size


class Machines:
    """Engines that take time to start, to drain and to end."""

    def __init__(self, start_s: float, drain_s: float) -> None:
        self.start_s, self.drain_s = start_s, drain_s
        self.alive: dict[str, float] = {}
        self.retired: dict[str, float] = {}

    def seen(self, slot: Slot, now: float) -> Seen:
        born = self.alive.get(slot.name)
        left = now - self.retired[slot.name] < self.drain_s if slot.name in self.retired else False
        return Seen(born is not None, born is not None and now - born >= self.start_s, int(left))

    def do(self, slot: Slot, order: Order | None, now: float) -> None:
        if order is Order.START:
            self.alive[slot.name] = now
        if order is Order.STOP:
            del self.alive[slot.name]
        if order is Order.RETIRE:
            self.retired[slot.name] = now
        if order is Order.ADMIT:
            self.retired.pop(slot.name, None)


@given(
    count=st.integers(1, 24),
    share=st.floats(0.01, 0.25),
    min_warm=st.integers(0, 23),
    start_s=st.integers(0, 20),
    drain_s=st.integers(0, 40),
    verify_s=st.integers(0, 5),
)
def test_a_roll_reaches_all_and_never_takes_more_than_its_batch(
    count: int, share: float, min_warm: int, start_s: int, drain_s: int, verify_s: int
) -> None:
    rule = RollRule(share, verify_s, min(min_warm, count - 1))
    slots, machines = a_pool(count), Machines(start_s, drain_s)
    machines.alive = {slot.name: -1000.0 for slot in slots}
    slots = [slot.wanting("b") for slot in slots]
    for second in range(24 * 100):
        now = float(second)
        for go in (False, True):
            told = (
                let_go(slots, now, rule)
                if go
                else [step(slot, machines.seen(slot, now), now, RULES) for slot in slots]
            )
            for slot, order in told:
                machines.do(slot, order, now)
            slots = [slot for slot, _ in told]
        out = sum(slot.phase is not Phase.SERVING for slot in slots)
        assert out <= batch_size(count, share)
        assert count - out >= rule.min_warm
        if all(slot.runs == "b" and slot.phase is Phase.SERVING for slot in slots):
            break
    assert all(slot.runs == "b" for slot in slots)


def test_a_replica_that_is_missing_holds_a_roll_back_one_given_up_does_not() -> None:
    slots = [slot.wanting("b") for slot in a_pool(4)]
    crashed = [replace(slots[0], phase=Phase.EMPTY, runs=""), *slots[1:]]
    given_up = [replace(slots[0], phase=Phase.GIVEN_UP, runs=""), *slots[1:]]
    assert may_leave(slots, 0.0, RollRule()) == 1
    assert may_leave(crashed, 0.0, RollRule()) == 0
    assert may_leave(given_up, 0.0, RollRule()) == 1
    assert may_leave(given_up, 0.0, RollRule(min_warm=3)) == 0


def test_what_came_back_lately_is_watched_before_the_next() -> None:
    slots = [slot.wanting("b") for slot in a_pool(4)]
    back = [replace(slots[0], runs="b", since_s=0.0), *slots[1:]]
    assert may_leave(back, 9.0, RollRule(verify_s=10)) == 0
    assert may_leave(back, 10.0, RollRule(verify_s=10)) == 1


def test_what_is_wanted_no_longer_leaves_whatever_the_batch() -> None:
    slots = a_pool(4)
    fewer = [slots[0], *(slot.wanting("") for slot in slots[1:])]
    told = let_go(fewer, 0.0, RollRule())
    assert [order for _, order in told] == [None, *[Order.RETIRE] * 3]


def test_a_restart_of_all_is_a_roll_to_the_same() -> None:
    slots = due_again(a_pool(8))
    told = let_go(slots, 0.0, RollRule())
    assert sum(order is Order.RETIRE for _, order in told) == 2


def test_no_other_is_ended_for_a_restart_while_one_cannot_be_started() -> None:
    slots = due_again(a_pool(4))
    slots[0] = replace(slots[0], phase=Phase.GIVEN_UP, runs="", gave_up_on="a", is_due=False)
    assert not any(order for _, order in let_go(slots, 0.0, RollRule()))
    changed = [slots[0], *(slot.wanting("b") for slot in slots[1:])]
    assert sum(order is Order.RETIRE for _, order in let_go(changed, 0.0, RollRule())) == 1
    many = [*due_again(a_pool(15)), slots[0]]
    assert sum(order is Order.RETIRE for _, order in let_go(many, 0.0, RollRule())) == 3
    again = due_again(slots)
    assert again[0].gave_up_on == ""


def test_those_that_run_for_long_are_due() -> None:
    slots = a_pool(2, started_s=0.0)
    slots[1] = replace(slots[1], started_s=50.0)
    assert [slot.is_due for slot in due_by_age(slots, 100.0, 60.0)] == [True, False]
