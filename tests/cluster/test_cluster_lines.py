"""The lines in tables are the gateway's line."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kilocard.cluster import lines
from kilocard.engine_model.compiled import PICOSECONDS, plain
from kilocard.engine_model.state import NOBODY, REQUEST, table
from kilocard.routing.waiting import Line

push, take, first, ahead, overdue = (
    plain(part) for part in (lines.push, lines.take, lines.first, lines.ahead, lines.overdue)
)
moves = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "push", "pop", "ahead", "late", "remove"]),
        st.integers(0, 2),
        st.integers(0, 30),
    ),
    max_size=60,
)


@given(moves=moves, limit=st.integers(0, 12), ageing_s=st.integers(0, 20))
def test_both_do_the_same(moves: list[tuple[str, int, int]], limit: int, ageing_s: int) -> None:
    longest_s = 25
    own: Line[int] = Line(limit, ageing_s)
    waits_ps = np.full(3, longest_s * PICOSECONDS)
    tables = lines.new_lines(np.array([limit]), waits_ps, ageing_s * PICOSECONDS)
    requests = table(len(moves) + 1, REQUEST)
    requests.behind = NOBODY
    now_s = 0
    for number, (move, rank, after_s) in enumerate(moves):
        now_s += after_s % 4
        if move == "push":
            requests[number].arrival_ps, requests[number].priority = now_s * PICOSECONDS, rank
            gone = own.push(number, now_s, rank, now_s + longest_s)
            assert push(tables, requests, 0, number, rank) == (NOBODY if gone is None else gone)
        elif move == "pop":
            turn = first(tables, requests, 0)
            head = int(tables.heads[0, turn]) if turn != NOBODY else None
            assert own.pop() == head
            if head is not None:
                take(tables, requests, 0, turn, head)
        elif move == "ahead":
            assert ahead(tables, requests, 0, now_s * PICOSECONDS, rank) == own.ahead(now_s, rank)
        elif move == "remove" and len(own):
            which = list(own)[after_s % len(own)]
            own.remove(which)
            take(tables, requests, 0, int(requests[which].priority), which)
        elif move == "late":
            found = set()
            while (late := overdue(tables, requests, 0, now_s * PICOSECONDS)) != NOBODY:
                found.add(int(late))
            assert found == set(own.overdue(now_s))
        assert int(tables.now[0]) == len(own) == int(tables.counts.sum())
        for each in range(3):
            assert int(tables.counts[0, each]) == own.of_rank(each)
            assert lines.RANKS == 3 and plain(lines.kept_for)(tables, 0, each) == own.kept_for(each)
