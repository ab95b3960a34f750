"""Among equals each is named equally often, whoever else is out; a slow replica is tried now and then."""

from __future__ import annotations

import numpy as np
import pytest

from kilocard.routing.chance import new_random
from kilocard.routing.company import SEEN_S
from kilocard.routing.policies import POLICIES, REFERENCE, TRICKLE, compile_policy
from kilocard.routing.replicas import Arrival, new_replicas

ARRIVAL = Arrival(prompt_tokens=100, expected_tokens=50, prefix=-1, priority=0)
IN_TURN = {"round-robin", "least-active"}
"""Bit for bit what they were: the one takes turns, the other begins anywhere and goes on."""


@pytest.mark.parametrize("name", sorted(POLICIES.keys() - IN_TURN))
def test_equals_are_named_equally_often_whoever_is_out(name: str) -> None:
    replicas, random, chosen = new_replicas(9), new_random(5), compile_policy(POLICIES[name])
    replicas.weight[[0, 3, 4]] = 0
    replicas.active[[0, 3, 4]] = 7
    named = np.bincount([chosen(replicas, ARRIVAL, random) for _ in range(12_000)], minlength=9)
    inside = replicas.weight > 0
    assert named[~inside].sum() == 0
    assert named[inside] == pytest.approx(2000, rel=0.12)


@pytest.mark.parametrize("name", sorted(POLICIES.keys() - IN_TURN - {"random", "weighted-round-robin"}))
def test_nobody_adds_to_the_load_of_the_most_loaded(name: str) -> None:
    replicas, random, chosen = new_replicas(4), new_random(1), compile_policy(POLICIES[name])
    replicas.active[:] = [3, 3, 40, 3]
    replicas.output_left[:] = 50 * replicas.active
    assert 2 not in {chosen(replicas, ARRIVAL, random) for _ in range(200)}


def test_turns_follow_the_weights() -> None:
    replicas, random, chosen = (
        new_replicas(3), new_random(0), compile_policy(POLICIES["weighted-round-robin"])
    )  # fmt: skip
    replicas.weight[:] = [1.0, 0.5, 0.5]
    named = [int(chosen(replicas, ARRIVAL, random)) for _ in range(400)]
    assert np.bincount(named).tolist() == [200, 100, 100]
    assert all(named[i] != named[i + 1] or named[i] == 0 for i in range(399))


def test_a_slow_replica_gets_a_trickle_by_which_it_would_be_seen_to_recover() -> None:
    replicas, random, chosen = new_replicas(8), new_random(2), compile_policy(POLICIES[REFERENCE])
    replicas.slowness[:] = 1.0
    replicas.slowness[3] = 5.0
    replicas.active[:] = 2
    replicas.active[3] = 0
    count = 40 * TRICKLE
    tries = sum(int(chosen(replicas, ARRIVAL, random)) == 3 for _ in range(count))
    assert tries == pytest.approx(40, rel=0.5)
    replicas.slowness[3] = 1.2
    assert int(chosen(replicas, ARRIVAL, random)) == 3


def test_one_of_whom_nothing_is_known_is_tried() -> None:
    replicas, random, chosen = new_replicas(8), new_random(2), compile_policy(POLICIES[REFERENCE])
    replicas.slowness[:] = 1.0
    replicas.slowness[6] = 0.0
    replicas.active[:] = 1
    replicas.active[6] = 0
    assert int(chosen(replicas, ARRIVAL, random)) == 6


def test_a_long_prompt_follows_its_cache_until_the_others_are_much_freer() -> None:
    replicas, random, chosen = new_replicas(4), new_random(2), compile_policy(POLICIES[REFERENCE])
    long = Arrival(prompt_tokens=4000, expected_tokens=50, prefix=0, priority=0)
    replicas.company[SEEN_S] *= 0.005
    replicas.prefill_s[:] = 1e-4
    replicas.cached_tokens[1] = 3900
    replicas.active[1] = 3
    assert int(chosen(replicas, long, random)) == 1
    replicas.active[1] = 60
    assert int(chosen(replicas, long, random)) != 1
    replicas.active[1] = 3
    replicas.prefill_s[:] = 1e-9
    assert int(chosen(replicas, long, random)) != 1
