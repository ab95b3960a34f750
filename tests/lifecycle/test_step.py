"""One slot: what it becomes, what is ordered, and what never happens."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kilocard.lifecycle import Order, Phase, Rules, Seen, Slot, back_off_s, step

RULES = Rules(
    ready_within_s=60, drain_s=30, back_off_s=1, most_back_off_s=8, most_deaths=3, deaths_within_s=100
)
ALIVE = Seen(is_alive=True)
READY = Seen(is_alive=True, is_ready=True)
BUSY = Seen(is_alive=True, is_ready=True, in_flight=3)
GONE = Seen()


def a_slot(phase: Phase = Phase.SERVING, **changes: object) -> Slot:
    return replace(Slot("chat-0", "chat", wants="a", runs="a", phase=phase), **changes)  # type: ignore[arg-type]


def test_an_engine_is_started_admitted_drained_and_ended() -> None:
    slot = Slot("chat-0", "chat", wants="a")
    slot, order = step(slot, GONE, 1.0, RULES)
    assert (slot.phase, slot.runs, order) == (Phase.STARTING, "a", Order.START)
    assert step(slot, ALIVE, 2.0, RULES) == (slot, None)
    slot, order = step(slot, READY, 3.0, RULES)
    assert (slot.phase, order) == (Phase.SERVING, Order.ADMIT)
    slot = slot.now_in(Phase.DRAINING, 10.0)
    assert step(slot, BUSY, 39.0, RULES) == (slot, None)
    assert step(slot, READY, 11.0, RULES)[1] is Order.STOP
    late, order = step(slot, BUSY, 41.0, RULES)
    assert (late.phase, order) == (Phase.STOPPING, Order.STOP)
    assert step(late, ALIVE, 42.0, RULES) == (late, None)
    empty, order = step(late, GONE, 43.0, RULES)
    assert (empty.phase, empty.runs, empty.deaths_s, order) == (Phase.EMPTY, "", (), None)


def test_what_dies_is_taken_from_the_gateways_and_comes_back_later_each_time() -> None:
    slot, starts = a_slot(), []
    now = 0.0
    for _ in range(RULES.most_deaths - 1):
        slot, order = step(slot, GONE, now, RULES)
        assert order is Order.RETIRE
        died = now
        while slot.phase is Phase.EMPTY:
            now += 0.5
            slot, order = step(slot, GONE, now, RULES)
        starts.append(now - died)
        slot, _ = step(slot, READY, now, RULES)
    assert starts == [1.0, 2.0]
    slot, _ = step(slot, GONE, now, RULES)
    assert (slot.phase, slot.gave_up_on) == (Phase.GIVEN_UP, "a")
    assert step(slot, GONE, now + 1e6, RULES) == (slot, None)
    slot, order = step(slot.wanting("b"), GONE, now + 1, RULES)
    assert (slot.phase, slot.deaths_s, order) == (Phase.EMPTY, (), None)


def test_deaths_long_ago_are_forgotten() -> None:
    slot = a_slot(deaths_s=(0.0, 1.0))
    slot, _ = step(slot, GONE, 500.0, RULES)
    assert slot.deaths_s == (500.0,)


def test_what_does_not_get_ready_is_stopped_and_counts_as_dead() -> None:
    slot = a_slot(Phase.STARTING, since_s=0.0)
    slot, order = step(slot, ALIVE, 61.0, RULES)
    assert (slot.phase, order, slot.deaths_s) == (Phase.STOPPING, Order.STOP, (61.0,))
    slot, _ = step(slot, GONE, 62.0, RULES)
    assert (slot.phase, slot.deaths_s) == (Phase.EMPTY, (61.0,))


def test_a_start_that_is_wanted_no_longer_ends_at_once() -> None:
    slot, order = step(a_slot(Phase.STARTING, wants="b"), ALIVE, 1.0, RULES)
    assert (slot.phase, order) == (Phase.STOPPING, Order.STOP)
    slot, _ = step(slot, GONE, 2.0, RULES)
    assert step(slot, GONE, 2.0, RULES)[0].runs == "b"
    assert step(replace(slot, wants=""), GONE, 2.0, RULES)[1] is None


@given(st.integers(0, 10_000))
def test_back_off_doubles_and_has_an_end(deaths: int) -> None:
    assert back_off_s(deaths, RULES) <= RULES.most_back_off_s
    assert back_off_s(deaths, RULES) <= back_off_s(deaths + 1, RULES)
    if 0 < deaths < 3:
        assert back_off_s(deaths + 1, RULES) == 2 * back_off_s(deaths, RULES)


looks = st.builds(Seen, st.booleans(), st.booleans(), st.integers(0, 3))


@given(st.lists(st.tuples(looks, st.sampled_from(["", "a", "b", None])), max_size=60))
def test_whatever_is_seen_engines_are_started_empty_and_stopped_drained(
    story: list[tuple[Seen, str | None]],
) -> None:
    slot, was_admitted = Slot("s", "p", wants="a"), False
    for at, (seen, wants) in enumerate(story):
        now = float(at)
        if wants is not None:
            slot = slot.wanting(wants)
        if slot.phase is Phase.SERVING and slot.is_outdated:
            slot = slot.now_in(Phase.DRAINING, now)
        before = slot
        slot, order = step(slot, seen, now, RULES)
        if order is Order.START:
            assert before.phase is Phase.EMPTY and slot.runs == slot.wants != ""
        if order is Order.STOP and was_admitted:
            assert before.phase is Phase.DRAINING
            assert seen.in_flight == 0 or now - before.since_s > RULES.drain_s
        if order is Order.ADMIT:
            assert seen.is_alive and seen.is_ready and slot.runs == slot.wants
        was_admitted = slot.phase in (Phase.SERVING, Phase.DRAINING)
        assert len(slot.deaths_s) <= RULES.most_deaths
        assert (slot.phase is Phase.EMPTY or slot.phase is Phase.GIVEN_UP) == (slot.runs == "")
