"""Experts: how many a batch touches, and how uneven dealing them out is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.model import Moe
from kilocard.parallel import busiest_share, experts_touched

QWEN = Moe(48, 128, 8, 768)
assert facts.model("qwen3-30b-a3b").moe == QWEN


def test_one_token_touches_its_own_and_many_touch_all() -> None:
    assert experts_touched(128, 8, 1) == pytest.approx(8)
    assert experts_touched(128, 8, 10_000) == pytest.approx(128)


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 500))
def test_touched_grows_with_tokens_and_stays_below_all(experts: int, chosen: int, tokens: int) -> None:
    fewer, more = (experts_touched(experts, min(chosen, experts), count) for count in (tokens, tokens + 1))
    assert 0 < fewer <= more <= experts


def test_touched_agrees_with_drawn_batches() -> None:
    chance = np.random.default_rng(1)
    drawn = [
        len({e for _ in range(20) for e in chance.choice(128, 8, replace=False).tolist()}) for _ in range(300)
    ]
    assert float(experts_touched(128, 8, 20)) == pytest.approx(np.mean(drawn), rel=0.02)


@given(st.integers(1, 60), st.integers(1, 8))
@settings(max_examples=20, deadline=None)
def test_the_busiest_rank_has_no_less_than_the_mean_and_no_more_than_all(tokens: int, ranks: int) -> None:
    moe = Moe(1, 16, 2, 8)
    assert 1 <= busiest_share(moe, tokens, ranks) <= ranks


def test_a_larger_batch_is_dealt_out_more_evenly() -> None:
    shares = [busiest_share(QWEN, tokens, 8) for tokens in (1, 8, 64, 512)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 1.1 < shares[0]


def test_more_ranks_than_experts_are_refused() -> None:
    with pytest.raises(KilocardError, match="129 ranks for 128 experts"):
        busiest_share(QWEN, 8, 129)
    with pytest.raises(KilocardError, match="0 tokens choose no expert"):
        busiest_share(QWEN, 0, 8)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ((8, 2, -1), "-1 tokens"),
        ((8, 2, float("nan")), "nan tokens"),
        ((8, 2, None), "tokens: give"),
        ((8, 9, 1), "9 experts a token of 8: give 1 to 8"),
        ((8, 0, 1), "0 experts a token: give 1 to 8"),
        ((8, [2], 1), "experts a token"),
        ((-8, 2, 1), "-8 experts"),
        ((None, 2, 1), "None experts"),
    ],
)
def test_what_no_router_chooses_is_refused(given_: tuple[int, int, int], said: str) -> None:
    with pytest.raises(KilocardError, match=said):
        experts_touched(*given_)


def test_a_dense_layer_and_an_idle_one_touch_none() -> None:
    assert experts_touched(0, 0, [1, 2]).tolist() == [0, 0]
    assert experts_touched(8, 2, 0) == 0


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1.5, None, [2]])
def test_ranks_and_tokens_are_whole_numbers(bad: float) -> None:
    with pytest.raises(KilocardError, match="ranks for 128 experts"):
        busiest_share(QWEN, 8, bad)  # type: ignore[arg-type]
    with pytest.raises(KilocardError, match="tokens choose no expert"):
        busiest_share(QWEN, bad, 8)  # type: ignore[arg-type]
