"""Groups of cards: each card in one, all of a group linked, and the known boxes as their owners know them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.topology import TopologyMatrix, groups_within, islands, largest_tp, parse_topology
from kilocard.topology.links import NEARNESS, distance

FIXTURES = Path(__file__).parents[2] / "data" / "published" / "topologies"


def wired(links: dict[tuple[int, int], str], count: int) -> TopologyMatrix:
    """Cards with these links, and SYS between the others."""
    rows = [["X" if a == b else "SYS" for b in range(count)] for a in range(count)]
    for (a, b), link in links.items():
        rows[a][b] = rows[b][a] = link
    return TopologyMatrix(
        tuple(f"GPU{card}" for card in range(count)),
        tuple(map(tuple, rows)),
        (),
        ((),) * count,
        (None,) * count,
        (None,) * count,
    )


@st.composite
def boxes(draw: st.DrawFn) -> TopologyMatrix:
    count = draw(st.integers(1, 10))
    pairs = [(a, b) for a in range(count) for b in range(a)]
    return wired({pair: draw(st.sampled_from(("NV2", *NEARNESS[1:]))) for pair in pairs}, count)


@pytest.mark.parametrize(
    ("name", "groups", "tp"),
    [
        ("dgx-h100", (tuple(range(8)),), 8),
        ("eight-a100-in-pairs", ((0, 1), (2, 3), (4, 5), (6, 7)), 2),
        ("pair-and-lone-card", ((0, 1), (2,)), 2),
        ("five-pcie-cards", ((0,), (1,), (2,), (3,), (4,)), 1),
        ("one-h100", ((0,),), 1),
    ],
)
def test_islands_of_known_boxes(name: str, groups: tuple[tuple[int, ...], ...], tp: int) -> None:
    matrix = parse_topology((FIXTURES / f"{name}.txt").read_text())
    assert islands(matrix) == groups
    assert largest_tp(matrix) == tp


def test_closest_cards_without_nvlink() -> None:
    matrix = parse_topology((FIXTURES / "five-pcie-cards.txt").read_text())
    assert groups_within(matrix, "PHB") == ((0,), (1, 2), (3, 4))
    assert groups_within(matrix, "NODE") == ((0,), (1, 2, 3, 4))


def test_a_chain_is_no_island() -> None:
    assert islands(wired({(0, 1): "NV2", (1, 2): "NV2"}, 3)) == ((0, 1), (2,))


def test_the_cube_of_eight_v100_falls_into_two_fours() -> None:
    quads = {(a, b): "NV1" for quad in (range(4), range(4, 8)) for a in quad for b in quad if a < b}
    across = {(card, card + 4): "NV2" for card in range(4)}
    matrix = wired(quads | across, 8)
    assert islands(matrix) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert largest_tp(matrix) == 4


@given(boxes(), st.sampled_from(NEARNESS))
def test_groups_are_a_partition_of_linked_cards(matrix: TopologyMatrix, farthest: str) -> None:
    groups = groups_within(matrix, farthest)
    assert sorted(card for group in groups for card in group) == list(range(len(matrix.cards)))
    limit = NEARNESS.index(farthest)
    assert all(
        distance(matrix.card_links[a][b]) <= limit for group in groups for a in group for b in group if a != b
    )


@given(boxes())
def test_no_card_outside_could_join_the_largest_group(matrix: TopologyMatrix) -> None:
    largest = max(islands(matrix), key=len)
    for card in set(range(len(matrix.cards))) - set(largest):
        assert any(distance(matrix.card_links[card][other]) > 0 for other in largest)


@given(boxes())
def test_all_cards_are_within_sys(matrix: TopologyMatrix) -> None:
    assert groups_within(matrix, "SYS") == (tuple(range(len(matrix.cards))),)
