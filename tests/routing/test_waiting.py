"""The line: in order, bounded, and each who comes leaves once."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from kilocard.errors import KilocardError
from kilocard.routing.waiting import Line, order_key

AGEING_S = 10.0
COMPILED_KEY = njit(order_key)
arrivals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2)), max_size=60)


def filled(came: list[tuple[int, int]], limit: int = 1000) -> tuple[Line[int], list[int]]:
    """A line, and those who had to leave it, by the number of their arrival."""
    line: Line[int] = Line(limit, AGEING_S)
    left = [line.push(number, arrived_s, rank) for number, (arrived_s, rank) in enumerate(came)]
    return line, [number for number in left if number is not None]


def in_order(came: list[tuple[int, int]]) -> list[int]:
    return sorted(range(len(came)), key=lambda n: (order_key(came[n][0], came[n][1], AGEING_S), n))


@given(came=arrivals)
def test_they_leave_in_order(came: list[tuple[int, int]]) -> None:
    line, _ = filled(came)
    assert list(line) == in_order(came)
    assert [line.of_rank(rank) for rank in range(3)] == [
        sum(its == rank for _, its in came) for rank in range(3)
    ]
    assert [line.pop() for _ in came] == in_order(came)
    assert line.of_better(3) == 0
    assert line.pop() is None and line.first is None


@given(came=arrivals)
def test_nobody_waits_longer_than_its_ageing(came: list[tuple[int, int]]) -> None:
    came.sort()
    served = list(filled(came)[0])
    for place, number in enumerate(served):
        arrived_s, rank = came[number]
        assert not [
            other
            for other in served[:place]
            if came[other][1] == 0 and came[other][0] > arrived_s + rank * AGEING_S
        ]


@given(came=arrivals)
def test_a_better_rank_never_waits_behind_a_worse_one_that_came_with_it_or_later(
    came: list[tuple[int, int]],
) -> None:
    served = list(filled(came)[0])
    for place, number in enumerate(served):
        arrived_s, rank = came[number]
        before = [came[other] for other in served[:place]]
        assert not [one for one in before if one[1] > rank and one[0] >= arrived_s]


@given(came=arrivals, limit=st.integers(0, 20))
def test_when_it_is_full_the_last_in_order_leaves(came: list[tuple[int, int]], limit: int) -> None:
    """But for those in the places that are kept for their rank."""
    line: Line[int] = Line(limit, AGEING_S, kept_share=0.2)
    inside: list[int] = []
    for number, (arrived_s, rank) in enumerate(came):
        left = line.push(number, arrived_s, rank)
        inside = [other for other in in_order(came[: number + 1]) if other in inside or other == number]
        if len(inside) > limit:
            of_rank = Counter(came[other][1] for other in inside)
            over = [other for other in inside if of_rank[came[other][1]] > line.kept_for(came[other][1])]
            assert left == over[-1]
            inside.remove(left)
        else:
            assert left is None
        assert list(line) == inside and len(line) <= limit


@given(flood=st.lists(st.integers(0, 60), min_size=20, max_size=60))
def test_a_flood_drives_nobody_out_of_a_kept_place(flood: list[int]) -> None:
    line: Line[str] = Line(20, AGEING_S)
    kept = [f"{name} {number}" for name in ("async", "batch") for number in range(2)]
    for item in kept:
        line.push(item, 0, 1 if item.startswith("async") else 2)
    for number, arrived_s in enumerate(sorted(flood)):
        line.push(f"interactive {number}", arrived_s, 0)
    assert set(kept) < set(line) and len(line) == 20


doings = st.lists(
    st.tuples(st.sampled_from(["push", "push", "pop", "remove", "overdue", "resize"]), st.integers(0, 30)),
    max_size=80,
)


@given(doings=doings)
def test_each_who_comes_leaves_once(doings: list[tuple[str, int]]) -> None:
    line: Line[int] = Line(8, AGEING_S)
    came = 0
    left: list[int | None] = []
    for doing, number in doings:
        if doing == "push":
            left.append(line.push(came, number, number % 3, gives_up_s=number + 5.0))
            came += 1
        elif doing == "pop":
            left.append(line.pop())
        elif doing == "remove":
            left += [number] if line.remove(number) else []
        elif doing == "overdue":
            left += line.overdue(number)
        else:
            left += line.resize(1 + number % 8)
        assert len(line) <= line.limit and len(set(line)) == len(line)
        assert line.of_rank(0) + line.of_better(0) + line.of_rank(1) + line.of_rank(2) == len(line)
        assert line.of_better(2) == line.of_rank(0) + line.of_rank(1)
    gone = [number for number in left if number is not None]
    assert sorted(gone + list(line)) == list(range(came))


@given(came=arrivals, arrived_s=st.integers(0, 60), rank=st.integers(0, 2))
def test_so_many_are_ahead(came: list[tuple[int, int]], arrived_s: int, rank: int) -> None:
    line, _ = filled(came)
    ahead = line.ahead(arrived_s, rank)
    line.push(-1, arrived_s, rank)
    assert list(line).index(-1) == ahead


@given(
    came=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=40), now_s=st.integers(0, 60)
)
def test_those_whose_time_is_up_leave_and_no_others(came: list[tuple[int, int]], now_s: int) -> None:
    line: Line[int] = Line(1000, AGEING_S)
    for number, (arrived_s, patience_s) in enumerate(came):
        line.push(number, arrived_s, 0, gives_up_s=arrived_s + patience_s)
    late = [n for n in in_order([(arrived_s, 0) for arrived_s, _ in came]) if sum(came[n]) <= now_s]
    assert line.overdue(now_s) == late
    assert not [number for number in line if sum(came[number]) <= now_s]
    assert line.soonest_s == min((float(sum(came[number])) for number in line), default=inf)


@given(arrived_s=st.floats(0, 1e9), rank=st.integers(0, 2), ageing_s=st.floats(0, 1e4))
def test_the_key_is_the_same_compiled(arrived_s: float, rank: int, ageing_s: float) -> None:
    assert COMPILED_KEY(arrived_s, rank, ageing_s) == order_key(arrived_s, rank, ageing_s)


class Request:
    """Something that has an identity and no order."""


def test_who_hangs_up_is_not_held() -> None:
    line: Line[Request] = Line(10, AGEING_S)
    first, gone, last = Request(), Request(), Request()
    for request in (first, gone, last):
        line.push(request, 0, 0)
    held = weakref.ref(gone)
    assert line.remove(gone) and not line.remove(gone)
    del gone, request
    gc.collect()
    assert held() is None and list(line) == [first, last]


def test_nobody_waits_twice() -> None:
    line, _ = filled([(0, 0)])
    with pytest.raises(KilocardError, match="0 waits already"):
        line.push(0, 1, 0)
    assert line.pop() == 0
    assert line.push(0, 1, 0) is None


@pytest.mark.parametrize(("limit", "ageing_s"), [(-1, 1.0), (1, -1.0), (1, inf), (1, float("nan"))])
def test_a_line_that_cannot_be_is_refused(limit: int, ageing_s: float) -> None:
    with pytest.raises(KilocardError, match="give"):
        Line(limit, ageing_s)


@pytest.mark.parametrize("kept_share", [-0.1, 0.6])
def test_too_many_kept_places_are_refused(kept_share: float) -> None:
    with pytest.raises(KilocardError, match="give a share"):
        Line(10, 1.0, kept_share)
