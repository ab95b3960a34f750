"""Failover: to another group when one is out, and back when it is well; not for load."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.routing.failover import FailoverRule, group_in_use, open_shares

GROUPS = ("here", "near", "far")
RULE = FailoverRule(GROUPS)
fleets = st.lists(
    st.tuples(st.sampled_from([*GROUPS, ""]), st.sampled_from([0.0, 0.0, 0.1, 0.2, 1.0]), st.booleans()),
    min_size=1,
    max_size=16,
).map(lambda rows: tuple(map(list, zip(*rows, strict=True))))
places = st.integers(0, len(GROUPS))


def part(groups: list[str], shares: list[float], place: int) -> list[float]:
    return [share for group, share in zip(groups, shares, strict=True) if RULE.place(group) == place]


@given(fleet=fleets, current=places)
def test_it_leaves_a_group_only_when_that_is_out_or_a_better_one_is_well(fleet: Any, current: int) -> None:
    groups, shares, _ = fleet
    used = group_in_use(RULE, groups, shares, current)
    if not any(shares):
        assert used == current
        return
    assert any(part(groups, shares, used))
    if used > current:
        assert not any(part(groups, shares, current))
    if used < current and any(part(groups, shares, current)):
        mine = part(groups, shares, used)
        assert sum(mine) >= RULE.back_share * len(mine)


@given(fleet=fleets, used=places)
def test_load_moves_nobody_unless_it_is_told_to(fleet: Any, used: int) -> None:
    groups, shares, rooms = fleet
    opened = open_shares(RULE, groups, shares, rooms, used)
    for group, share, allowed in zip(groups, shares, opened, strict=True):
        assert allowed == (share if RULE.place(group) == used else 0.0)


@given(fleet=fleets, used=places)
def test_told_to_it_opens_the_next_as_far_as_those_before_are_full(fleet: Any, used: int) -> None:
    groups, shares, rooms = fleet
    opened = open_shares(FailoverRule(GROUPS, on_load=True), groups, shares, rooms, used)
    rows = list(zip(map(RULE.place, groups), shares, rooms, opened, strict=True))
    for place, share, _, allowed in rows:
        has_room_before = any(room and its > 0 for at, its, room, _ in rows if used <= at < place)
        somebody_has_room = any(room and its > 0 for at, its, room, _ in rows if at >= place)
        wanted = place == used or (place > used and not has_room_before and somebody_has_room)
        assert allowed == (share if wanted else 0.0)


def test_one_that_comes_back_does_not_carry_all_at_once() -> None:
    groups = ["here"] * 4 + ["near"] * 4
    used, seen = 0, []
    for back in (
        [1.0] * 4,
        [0.0] * 4,
        [0.1, 0.0, 0.0, 0.0],
        [1.0, 0.5, 0.0, 0.0],
        [1.0, 1.0, 0.1, 0.0],
        [0.3] * 4,
    ):
        used = group_in_use(RULE, groups, back + [1.0] * 4, used)
        seen.append(used)
    assert seen == [0, 1, 1, 1, 0, 0]


def test_without_an_order_all_are_one_group() -> None:
    rule = FailoverRule()
    assert group_in_use(rule, ["a", "b"], [0.0, 1.0], 0) == 0
    assert open_shares(rule, ["a", "b"], [0.5, 1.0], [True, True], 0) == [0.5, 1.0]


@pytest.mark.parametrize("wrong", [{"order": ("a", "a")}, {"back_share": 0}, {"back_share": 1.5}])
def test_a_rule_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(KilocardError, match=r"give|once"):
        FailoverRule(**wrong)
