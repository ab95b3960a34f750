"""Connections at a door: never more than it holds while any is idle, and the idlest goes first."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.gateway.guests import CLOSING_S, Guests, look_at
from kilocard.specs.cluster.limits import Limits


@dataclass(eq=False)
class Caller:
    """A connection that tells what was done with it."""

    guests: Guests
    reads: str = "idle"
    waits_since: float = 0.0
    is_answering: bool = False
    is_sending: bool = False
    ended: str = ""

    @property
    def is_idle(self) -> bool:
        return self.reads == "idle" and not self.is_answering

    def close(self) -> None:
        self._end("closed")

    def too_slow(self) -> None:
        self._end("too slow")

    def abort(self) -> None:
        self._end("aborted")

    def _end(self, how: str) -> None:
        self.ended = how
        self.guests.leave(self)


@given(most=st.integers(1, 8), busy=st.lists(st.booleans(), max_size=40))
def test_an_idle_one_makes_room_for_a_newcomer_and_the_idlest_first(most: int, busy: list[bool]) -> None:
    guests, here = Guests(most), []
    for moment, is_busy in enumerate(busy):
        newcomer = Caller(guests, waits_since=float(moment), is_answering=is_busy)
        is_admitted = guests.admit(newcomer)
        gone = [it for it in here if it.ended]
        assert is_admitted or (len(here) == most and all(it.is_answering for it in here))
        assert len(gone) == (len(here) == most and is_admitted)
        assert all(
            it.is_idle and it.waits_since == min(i.waits_since for i in here if i.is_idle) for it in gone
        )
        if not is_admitted:
            newcomer.abort()
        here = [it for it in [*here, newcomer] if not it.ended]
        assert len(guests) == len(here) <= most


LIMITS = Limits(header_s=1, body_s=2, idle_s=5)


@pytest.mark.parametrize(
    ("caller", "after_s", "ended"),
    [
        ({"reads": "head"}, 1.5, "too slow"),
        ({"reads": "body"}, 1.5, ""),
        ({"reads": "body"}, 2.5, "too slow"),
        ({}, 4.5, ""),
        ({}, 5.5, "closed"),
        ({"is_answering": True}, 99, ""),
        ({"reads": "closing"}, CLOSING_S + 1, "aborted"),
        ({"reads": "closing", "is_sending": True}, CLOSING_S + 1, ""),
        ({"reads": "closing", "is_answering": True}, 99, ""),
    ],
)
def test_each_may_take_its_time_but_not_any_time(
    caller: dict[str, object], after_s: float, ended: str
) -> None:
    guests = Guests(1)
    its = Caller(guests, **caller)  # type: ignore[arg-type]
    guests.admit(its)
    look_at(its, after_s, LIMITS, ending=False)
    assert its.ended == ended


def test_at_the_end_who_is_idle_goes_at_once_and_nobody_stays() -> None:
    guests = Guests(2)
    idle, busy = Caller(guests), Caller(guests, is_answering=True)
    assert guests.admit(idle) and guests.admit(busy)
    for guest in guests:
        look_at(guest, 0.0, LIMITS, ending=True)
    assert (idle.ended, busy.ended) == ("closed", "")
    guests.close()
    assert busy.ended == "aborted"
    assert len(guests) == 0
