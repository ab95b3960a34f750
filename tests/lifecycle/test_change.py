"""A pool's change: tried, rolled out, taken back, and not tried again."""

from __future__ import annotations

from dataclasses import replace

from kilocard.lifecycle import Change, Phase, Slot, Stage, Verdict, advance, propose, wanted


def a_pool(runs: str = "a", count: int = 4) -> list[Slot]:
    return [Slot(f"p-{k}", "p", wants=runs, runs=runs, phase=Phase.SERVING) for k in range(count)]


def settled(slots: list[Slot]) -> list[Slot]:
    return [replace(slot, runs=slot.wants, phase=Phase.SERVING) for slot in slots]


def waits(change: Change, slots: list[Slot], now: float) -> Change:
    return advance(change, slots, Verdict.WAIT, "", 1, now)


def test_a_good_canary_goes_through_the_pool() -> None:
    change, slots = propose(Change("a"), "b", True, 0.0), a_pool()
    assert change.stage is Stage.TRYING
    slots = wanted(change, slots, 1)
    assert [slot.wants for slot in slots] == ["b", "a", "a", "a"]
    assert waits(change, slots, 1.0).judged_since_s is None
    slots = settled(slots)
    change = waits(change, slots, 2.0)
    assert change.judged_since_s == 2.0
    assert waits(change, slots, 3.0) == change
    change = advance(change, slots, Verdict.GOOD, "it is good", 1, 4.0)
    assert (change.stage, change.reason) == (Stage.ROLLING, "it is good")
    slots = wanted(change, slots, 1)
    assert {slot.wants for slot in slots} == {"b"}
    assert waits(change, slots, 5.0) == change
    change = waits(change, settled(slots), 6.0)
    assert (change.target, change.candidate, change.stage) == ("b", "", Stage.STEADY)


def test_a_bad_canary_is_taken_back_and_not_tried_again() -> None:
    change = propose(Change("a"), "b", True, 0.0)
    slots = settled(wanted(change, a_pool(), 1))
    change = advance(waits(change, slots, 1.0), slots, Verdict.BAD, "too slow", 1, 2.0)
    assert (change.stage, change.reason) == (Stage.RETURNING, "too slow")
    slots = wanted(change, slots, 1)
    assert {slot.wants for slot in slots} == {"a"}
    assert waits(change, slots, 3.0) == change
    change = waits(change, settled(slots), 4.0)
    assert (change.stage, change.target, change.reason) == (Stage.STEADY, "a", "too slow")
    assert propose(change, "b", True, 5.0) == change
    again = propose(propose(change, "c", True, 6.0), "b", True, 7.0)
    assert (again.stage, again.candidate) == (Stage.TRYING, "b")


def test_a_canary_that_dies_is_taken_back() -> None:
    change = propose(Change("a"), "b", True, 0.0)
    slots = wanted(change, a_pool(), 1)
    once = [replace(slots[0], phase=Phase.EMPTY, runs="", deaths_s=(1.0,)), *slots[1:]]
    twice = [replace(once[0], deaths_s=(1.0, 2.0)), *slots[1:]]
    assert waits(change, once, 1.0).stage is Stage.TRYING
    assert waits(change, twice, 2.0).stage is Stage.RETURNING


def test_without_a_canary_it_is_rolled_at_once_and_taken_back_when_it_dies() -> None:
    change = propose(Change("a"), "b", False, 0.0)
    assert change.stage is Stage.ROLLING
    slots = wanted(change, a_pool(), 1)
    gone = [replace(slots[0], phase=Phase.GIVEN_UP, runs="", gave_up_on="b"), *slots[1:]]
    change = waits(change, gone, 1.0)
    assert (change.stage, change.refused) == (Stage.RETURNING, ("b",))


def test_the_file_may_change_its_mind() -> None:
    change = propose(Change("a"), "b", True, 0.0)
    assert propose(change, "b", True, 1.0) == change
    assert propose(change, "a", True, 1.0).stage is Stage.RETURNING
    other = propose(change, "c", True, 1.0)
    assert (other.candidate, other.stage, other.target) == ("c", Stage.TRYING, "a")


def test_the_same_slots_stay_canaries() -> None:
    change, slots = propose(Change("a"), "b", True, 0.0), a_pool()
    down = [*slots[:2], replace(slots[2], phase=Phase.EMPTY, runs=""), slots[3]]
    first = wanted(change, down, 1)
    assert [slot.wants for slot in first] == ["a", "a", "b", "a"]
    assert wanted(change, settled(first), 1) == settled(first)


def test_empty_slots_stay_empty() -> None:
    change = propose(Change("a"), "b", False, 0.0)
    slots = [*a_pool(count=2), Slot("p-2", "p")]
    assert [slot.wants for slot in wanted(change, slots, 1)] == ["b", "b", ""]
