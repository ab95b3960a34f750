"""Tenants' buckets never grant more than their rate and their burst; caps are shared out whole."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.routing.limits import UNLIMITED, Limit, Limits, owned_caps

ROUNDING = 1e-6

limits = st.builds(
    Limit,
    requests_per_s=st.sampled_from([0.5, 2.0, 20.0, inf]),
    tokens_per_s=st.sampled_from([10.0, 100.0, inf]),
    burst_s=st.sampled_from([1.0, 10.0]),
)
asks = st.lists(st.tuples(st.floats(0, 2), st.integers(0, 100), st.floats(0, 1)), max_size=80)


@given(limit=limits, asks=asks)
def test_no_more_is_granted_than_rate_times_time_and_the_burst(limit: Limit, asks: list[Any]) -> None:
    accounts, now_s, requests, tokens, largest = Limits(), 5.0, 0, 0, 0
    for after_s, wanted, _ in asks:
        now_s += after_s
        if accounts.take("a", limit, wanted, now_s) == 0:
            requests, tokens, largest = requests + 1, tokens + wanted, max(largest, wanted)
        gone_s = now_s - 5 + ROUNDING
        assert requests <= limit.requests_per_s * gone_s + limit.burst_requests
        assert tokens <= limit.tokens_per_s * gone_s + max(limit.burst_tokens, largest)


@given(limit=limits, asks=asks)
def test_nor_when_each_is_settled_for_what_it_used(limit: Limit, asks: list[Any]) -> None:
    accounts, now_s, used, largest = Limits(), 5.0, 0.0, 0
    running: list[tuple[int, float]] = []
    for after_s, wanted, part in asks:
        now_s += after_s
        if running and part > 0.5:
            charged, share = running.pop()
            accounts.settle("a", limit, charged, charged * share, now_s)
            used += charged * share
        if accounts.take("a", limit, wanted, now_s) == 0:
            running.append((wanted, part))
            largest = max(largest, wanted)
        most = limit.tokens_per_s * (now_s - 5 + ROUNDING) + max(limit.burst_tokens, largest)
        assert used <= most + ROUNDING


@given(limit=limits, asks=asks)
def test_who_waits_as_long_as_it_is_told_is_granted(limit: Limit, asks: list[Any]) -> None:
    accounts, now_s = Limits(), 5.0
    for after_s, wanted, _ in asks:
        now_s += after_s
        wait_s = accounts.take("a", limit, wanted, now_s)
        if wait_s > 0:
            now_s += wait_s * (1 + ROUNDING) + ROUNDING
            assert accounts.take("a", limit, wanted, now_s) == 0


def test_what_was_used_beyond_the_estimate_is_owed() -> None:
    accounts, limit = Limits(), Limit(tokens_per_s=10, burst_s=10)
    assert accounts.take("a", limit, 50, 0) == 0
    accounts.settle("a", limit, 50, 250, 0)
    assert accounts.take("a", limit, 10, 0) == pytest.approx(16)
    assert accounts.take("a", limit, 10, 16.1) == 0


def test_a_request_larger_than_the_burst_is_granted_once_the_bucket_is_full() -> None:
    accounts, limit = Limits(), Limit(tokens_per_s=10, burst_s=10)
    assert accounts.take("a", limit, 300, 0) == 0
    assert accounts.take("a", limit, 1, 0) == pytest.approx(20.1)
    assert accounts.take("a", limit, 300, 29.9) > 0
    assert accounts.take("a", limit, 300, 30.1) == 0


@given(limit=limits, gateways=st.integers(1, 8))
def test_several_gateways_grant_together_what_one_would(limit: Limit, gateways: int) -> None:
    own = limit.of_one(gateways)
    assert own.requests_per_s * gateways == pytest.approx(limit.requests_per_s)
    assert own.burst_tokens * gateways == pytest.approx(limit.burst_tokens)
    assert own.burst_requests * gateways <= max(limit.burst_requests, gateways) * (1 + ROUNDING)


@given(tenants=st.lists(st.integers(0, 20), max_size=100), most=st.integers(1, 8))
def test_so_many_tenants_are_remembered_the_last_of_them(tenants: list[int], most: int) -> None:
    accounts, limit = Limits(most), Limit(requests_per_s=0.001, burst_s=1)
    for now_s, tenant in enumerate(tenants):
        accounts.take(str(tenant), limit, 1, now_s)
        assert len(accounts) <= most
    for tenant in list(dict.fromkeys(reversed(tenants)))[:most]:
        assert accounts.take(str(tenant), limit, 1, len(tenants)) > 0


def test_tenants_do_not_touch_each_other_and_the_forgotten_are_not_settled() -> None:
    accounts, limit = Limits(1), Limit(requests_per_s=1, burst_s=1)
    assert accounts.take("a", limit, 1, 0) == 0
    assert accounts.take("a", limit, 1, 0) > 0
    assert accounts.take("b", limit, 1, 0) == 0
    accounts.settle("a", limit, 1, 100, 0)
    assert len(accounts) == 1


@given(asks=asks)
def test_who_has_no_limit_is_always_granted(asks: list[Any]) -> None:
    accounts = Limits()
    for after_s, wanted, _ in asks:
        assert accounts.take("a", UNLIMITED, wanted, after_s) == 0
        accounts.settle("a", UNLIMITED, wanted, 2 * wanted, after_s)


@given(caps=st.lists(st.integers(1, 70), max_size=30), gateways=st.integers(1, 9))
def test_caps_are_shared_out_whole_and_alike(caps: list[int], gateways: int) -> None:
    owned = [owned_caps(caps, gateway, gateways) for gateway in range(gateways)]
    assert [sum(parts) for parts in zip(*owned, strict=True)] == caps
    assert all(max(parts) - min(parts) <= 1 for parts in zip(*owned, strict=True))
    totals = [sum(parts) for parts in owned]
    assert max(totals) - min(totals) <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Limit(requests_per_s=0),
        lambda: Limit(tokens_per_s=-1),
        lambda: Limit(tokens_per_s=float("nan")),
        lambda: Limit(burst_s=0),
        lambda: Limits(0),
        lambda: owned_caps([0], 0, 1),
        lambda: owned_caps([1], 1, 1),
    ],
)
def test_what_cannot_be_is_refused(wrong: Any) -> None:
    with pytest.raises(KilocardError, match=r"give|leave|count"):
        wrong()
