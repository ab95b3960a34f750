"""Every rule holds in a placement, and what cannot be placed says what would help."""

from __future__ import annotations

import re
from collections import Counter
from math import floor

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.planning.building import cells_of
from kilocard.planning.placement import Group, NoPlaceError, Placement, place
from kilocard.planning.shortfall import grown
from kilocard.specs.target import Building

THOUSAND = {"nodes": 125, "racks": 32, "switches": 16, "power_domains": 4}
FOUR_POOLS = [Group("chat", 200, 1), Group("long", 100, 4), Group("images", 100, 2), Group("spare", 200, 1)]

groups = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([1, 2, 3, 4, 6, 8, 16])), min_size=1, max_size=4
).map(lambda rows: [Group(f"p{k}", count, cards) for k, (count, cards) in enumerate(rows)])
buildings = st.builds(
    Building,
    nodes=st.integers(8, 40),
    racks=st.integers(1, 8),
    switches=st.integers(1, 4),
    power_domains=st.integers(1, 3),
    rack_share=st.sampled_from([None, 0.3, 0.6]),
    power_share=st.sampled_from([None, 0.5, 0.8]),
)


def require_rules(found: Placement, asked: list[Group], site: Building) -> None:
    assert Counter(it.pool for it in found.placed) == Counter({it.pool: it.replicas for it in asked})
    cards = {group.pool: group.cards for group in asked}
    used: Counter[int] = Counter()
    home = {node: cell for cell in cells_of(site, one_each=True) for node in cell.nodes}
    for it in found.placed:
        need = cards[it.pool]
        assert len(it.nodes) == -(-need // site.cards_per_node)
        for node in it.nodes:
            used[node] += site.cards_per_node if len(it.nodes) > 1 else need
            assert (home[node].rack, home[node].switch, home[node].power) == (it.rack, it.switch, it.power)
    assert max(used.values()) <= site.cards_per_node
    for group in asked:
        for share, kind in ((site.rack_share, "rack"), (site.power_share, "power")):
            if share is not None:
                most = max(1, floor(share * group.replicas + 1e-9))
                held = found.share_of(group.pool, kind).values()
                assert max(held) * group.replicas <= most + 1e-6


@settings(max_examples=40)
@given(asked=groups, site=buildings)
def test_every_rule_holds(asked: list[Group], site: Building) -> None:
    try:
        found = place(asked, site)
    except NoPlaceError as error:
        assert error.rule
        return
    require_rules(found, asked, site)


@settings(max_examples=25)
@given(asked=groups, site=buildings)
def test_each_change_that_is_named_is_enough(asked: list[Group], site: Building) -> None:
    with pytest.raises(NoPlaceError) as caught:
        place(asked, site)
        assume(False)
    for change in caught.value.changes:
        if match := re.match(r"let (\w+) be ([\d.]+)", change):
            its, where = asked, site.model_copy(update={match[1]: float(match[2])})
        elif match := re.match(r"place \d+ replicas of (\w+) fewer \((\d+)\)", change):
            its = [
                Group(it.pool, int(match[2]) if it.pool == match[1] else it.replicas, it.cards)
                for it in asked
            ]
            where = site
        else:
            match = re.match(r"add (\d+) nodes", change)
            assert match, change
            its, where = asked, grown(site, site.nodes + int(match[1]))
        require_rules(place(its, where), its, where)


def test_a_thousand_cards_are_full_and_spread() -> None:
    site = Building(**THOUSAND, rack_share=0.05, power_share=0.3)
    found = place(FOUR_POOLS, site)
    require_rules(found, FOUR_POOLS, site)
    assert found.worst("node") <= 0.03
    assert found.worst("power") <= 0.27


@pytest.mark.parametrize(
    ("asked", "site", "rule", "change"),
    [
        (Group("c", 1001, 1), {}, "1,001 cards are asked for and 1,000 are there", "add 1 nodes"),
        (Group("c", 250, 4), {"power_share": 0.25}, "no power domain may hold", "power_share be 0.2"),
        (Group("c", 10, 4), {"racks": 2, "rack_share": 0.2}, "no rack may hold", "rack_share be 0.5"),
        (Group("c", 251, 3), {}, "do not go into whole nodes", "1 replicas of c fewer"),
        (Group("c", 1, 80), {}, "10 nodes under one switch in one rack, and at most 4", "cut replicas"),
    ],
)
def test_what_cannot_be_placed_says_why_and_what_would_do(
    asked: Group, site: dict[str, float], rule: str, change: str
) -> None:
    with pytest.raises(NoPlaceError, match=re.escape(rule)) as caught:
        place([asked], Building.model_validate(THOUSAND | site))
    assert change in str(caught.value)


def test_groups_are_asked_for_once_each() -> None:
    with pytest.raises(KilocardError, match="two pools are called a"):
        place([Group("a", 1, 1), Group("a", 2, 1)], Building(nodes=2))
    with pytest.raises(KilocardError, match="at least one pool"):
        place([], Building(nodes=2))
    with pytest.raises(KilocardError, match="give 1 or more"):
        Group("a", 0, 1)
