"""A box is shared out in equal parts, none of which belongs to two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.launch.place import Place, check_cores, places_on_cards, places_on_cores, share_cores, split

CORES = st.sets(st.integers(0, 200), min_size=1, max_size=64).map(sorted)


@given(st.integers(1, 8), CORES)
def test_ranks_get_equal_shares_and_the_client_a_core(ranks: int, cores: list[int]) -> None:
    if len(cores) < ranks:
        with pytest.raises(KilocardError, match=f"{ranks} ranks need {ranks} cores"):
            share_cores(ranks, cores)
        return
    groups = share_cores(ranks, cores)
    used = [core for group in groups for core in group]
    assert len(groups) == ranks
    assert len({len(group) for group in groups}) == 1
    assert len(set(used)) == len(used)
    assert set(used) <= set(cores)
    assert len(cores) == ranks or len(used) < len(cores)


@given(st.integers(1, 6), st.integers(1, 4), CORES)
def test_replicas_get_equal_places_without_a_core_in_common(count: int, ranks: int, cores: list[int]) -> None:
    if len(cores) < count * ranks:
        with pytest.raises(
            KilocardError, match=f"need {count * ranks} cores and this box lends {len(cores)}"
        ):
            places_on_cores(count, ranks, cores)
        return
    places = places_on_cores(count, ranks, cores)
    used = [core for place in places for core in place.cores]
    assert len(places) == count
    assert len({len(place.cores) for place in places}) == 1
    assert len(set(used)) == len(used)
    assert set(used) <= set(cores)
    assert all(split(ranks, place.cores) for place in places)
    assert len(cores) == count * ranks or len(used) < len(cores)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 30))
def test_replicas_get_a_card_a_rank(count: int, ranks: int, lent: int) -> None:
    cards = [f"GPU-{number}" for number in range(lent)]
    if lent < count * ranks:
        with pytest.raises(KilocardError, match=f"need {count * ranks} cards and this box lends {lent}"):
            places_on_cards(count, ranks, cards)
        return
    places = places_on_cards(count, ranks, cards)
    assert [card for place in places for card in place.cards] == cards[: count * ranks]
    assert {len(place.cards) for place in places} == {ranks}


def test_two_replicas_of_a_box_with_two_cores_get_one_each() -> None:
    assert [place.cores for place in places_on_cores(2, 1, [0, 1])] == [(0,), (1,)]
    assert [place.cores for place in places_on_cores(2, 2, range(16))] == [
        (0, 1, 2, 3, 4, 5),
        (6, 7, 8, 9, 10, 11),
    ]


def test_a_core_that_is_not_lent_is_refused() -> None:
    check_cores((1,), [0, 1])
    with pytest.raises(KilocardError, match=r"core 7, -1 cannot be used: this process may use 0, 1"):
        check_cores((1, 7, -1), [0, 1])
    with pytest.raises(KilocardError, match=r"cores 1, 1: one of them is named twice"):
        Place(cores=(1, 1))
