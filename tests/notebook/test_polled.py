"""A view that is fresh for each request is the count itself; an old one sends all of its age to one place."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.notebook import polled
from kilocard.routing.chance import new_random
from kilocard.routing.policies import compile_policy
from kilocard.routing.replicas import Arrival, Policy, new_replicas

ASKED = Arrival(16, 16, -1, 0)
WAYS = [polled.idlest, polled.better_of_two, polled.with_own_since]
MOST_REPLICAS = 12
counts = st.lists(st.integers(0, 50), min_size=1, max_size=MOST_REPLICAS)


@cache
def ready(way: Callable[[int], Policy], every: int) -> Policy:
    return compile_policy(way(every))


@given(counts, st.integers(0, 10**6))
def test_a_fresh_view_names_one_of_the_fewest(active: list[int], seed: int) -> None:
    replicas, random = new_replicas(len(active)), new_random(seed)
    replicas.active[:] = active
    for way in (polled.idlest, polled.with_own_since):
        chosen = ready(way, 1)(replicas, ASKED, random)
        assert active[chosen] == min(active)


@given(counts, st.sampled_from([2, 7, 40]), st.integers(0, 10**6))
def test_between_two_looks_an_old_view_names_the_same_few(active: list[int], every: int, seed: int) -> None:
    replicas, random = new_replicas(len(active)), new_random(seed)
    replicas.active[:] = active
    policy = ready(polled.idlest, every)
    least = {r for r, count in enumerate(active) if count == min(active)}
    for _ in range(every):
        chosen = policy(replicas, ASKED, random)
        assert chosen in least
        replicas.active[chosen] += 1


@given(st.integers(1, 12), st.integers(1, 60), st.integers(0, 10**6))
def test_who_counts_its_own_since_deals_evenly_however_old_the_view(count: int, n: int, seed: int) -> None:
    replicas, random = new_replicas(count), new_random(seed)
    policy = ready(polled.with_own_since, 1000)
    sent = np.bincount([policy(replicas, ASKED, random) for _ in range(n)], minlength=count)
    assert sent.max() - sent.min() <= 1


@pytest.mark.parametrize("way", WAYS)
def test_each_names_somebody_and_needs_a_look_now_and_then(way: Callable[[int], Policy]) -> None:
    replicas, random, policy = new_replicas(5), new_random(9), compile_policy(way(3))
    sent = [int(policy(replicas, ASKED, random)) for _ in range(200)]
    assert set(sent) == set(range(5))
    with pytest.raises(KilocardError, match="every 0 requests"):
        way(0)
