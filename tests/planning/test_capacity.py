"""The multiplication and its reserves."""

from __future__ import annotations

from math import ceil, comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.planning.capacity import down_share_of, size_of, spares_for
from kilocard.planning.cost import cost_of
from kilocard.planning.pools import size_pools
from kilocard.specs.target import Offer


def test_the_sources_target_from_their_own_card() -> None:
    """10,000 tokens/s of cards that give 110: 91, and with their own discounts 143 to 190, not 1,000."""
    assert size_of(10_000, 110).ideal == 91
    assert size_of(10_000, 110, efficiency=0.8).with_headroom == ceil(142.05)
    assert size_of(10_000, 110, efficiency=0.6).with_headroom == ceil(189.4)
    assert size_of(10_000, 40, cards_per_replica=4, headroom=0).cards == 1000


@given(
    target=st.floats(1, 1e5),
    each=st.floats(10, 1e4),
    efficiency=st.floats(0.1, 1),
    headroom=st.floats(0, 2),
)
def test_what_is_bought_is_enough_and_one_less_is_not(
    target: float, each: float, efficiency: float, headroom: float
) -> None:
    size = size_of(target, each, efficiency=efficiency, headroom=headroom)
    assert size.ideal <= size.efficient <= size.with_headroom
    assert size.with_headroom * each * efficiency >= target * (1 + headroom) * (1 - 1e-6)
    if size.with_headroom > 1:
        assert (size.with_headroom - 1) * each * efficiency < target * (1 + headroom)


@given(
    needed=st.integers(1, 300),
    down=st.floats(1e-5, 0.2),
    availability=st.sampled_from([0.9, 0.99, 0.999, 0.9999]),
)
def test_spares_are_the_fewest_by_the_binomial_law(needed: int, down: float, availability: float) -> None:
    spares = spares_for(needed, down, availability)

    def up(more: int) -> float:
        count = needed + more
        return sum(comb(count, k) * down**k * (1 - down) ** (count - k) for k in range(more + 1))

    assert up(spares) >= availability - 1e-9
    assert spares == 0 or up(spares - 1) < availability + 1e-9


def test_a_replica_of_more_cards_is_down_more_often() -> None:
    shares = [down_share_of(50_677, 24, cards) for cards in (1, 4, 8)]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(24 / (50_677 + 24))


def test_bad_numbers_are_refused() -> None:
    for told in (
        {"efficiency": 0},
        {"efficiency": 1.5},
        {"down_share": 1.0},
        {"down_share": 0.1, "availability": 1},
    ):
        with pytest.raises(KilocardError):
            size_of(1000, 10, **told)  # type: ignore[arg-type]
    with pytest.raises(KilocardError, match="more than 10,000,000 replicas"):
        size_of(1e12, 1)
    with pytest.raises(KilocardError, match="above 0"):
        size_of(0, 1)


def test_cost_is_the_users_price_and_the_boards_power() -> None:
    cost = cost_of(Offer(card="h100-sxm", price_per_hour=2.0), 100, 50_000)
    assert cost.price_per_hour == 200
    assert cost.per_million_tokens == pytest.approx(200 / (50_000 * 3600 / 1e6))
    assert cost.kwh == pytest.approx(70.0)
    unknown = cost_of(Offer(card="k100-ai"), 100, 50_000)
    assert (unknown.kwh, unknown.price_per_hour, unknown.per_million_tokens) == (None, None, None)
    assert cost_of(Offer(card="k100-ai", watts=300), 10, 1).kwh == 3.0


needs = st.dictionaries(
    st.sampled_from("abcd"),
    st.lists(st.floats(0, 100), min_size=6, max_size=6),
    min_size=1,
    max_size=4,
)


@given(needs=needs, usual=st.floats(0.1, 1))
def test_pools_and_their_buffer_are_enough_at_every_moment(
    needs: dict[str, list[float]], usual: float
) -> None:
    pools = size_pools(needs, usual=usual)
    for moment in zip(*needs.values(), strict=True):
        over = sum(
            max(0, ceil(need - 1e-9) - own) for need, own in zip(moment, pools.own.values(), strict=True)
        )
        assert over <= pools.buffer
    assert pools.together <= pools.cards
    assert pools.together <= pools.apart


def test_peaks_that_do_not_meet_share_a_buffer() -> None:
    hours = np.arange(24)
    day = np.where((hours > 8) & (hours < 20), 100, 10)
    night = np.where((hours > 8) & (hours < 20), 10, 100)
    pools = size_pools({"chat": day, "batch": night}, usual=0.3)
    assert pools.apart == 200
    assert pools.together == 110
    assert pools.cards < pools.apart


def test_needs_have_to_be_of_the_same_moments() -> None:
    with pytest.raises(KilocardError, match="different moments"):
        size_pools({"a": [1, 2], "b": [1]})
    with pytest.raises(KilocardError, match="no needs"):
        size_pools({})
    with pytest.raises(KilocardError, match="no row of numbers"):
        size_pools({"a": [-1]})
