"""Policies: whom they name, and that they are the same compiled and not."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.routing.chance import new_random
from kilocard.routing.policies import POLICIES, compile_policy
from kilocard.routing.replicas import Arrival, Policy, Replicas, new_replicas

ARRIVAL = Arrival(prompt_tokens=10, expected_tokens=5, prefix=-1, priority=0)


@pytest.fixture(scope="module", params=sorted(POLICIES))
def policy(request: pytest.FixtureRequest) -> Policy:
    return compile_policy(POLICIES[request.param])


def loaded(active: list[int], weights: list[float]) -> Replicas:
    replicas = new_replicas(len(active))
    replicas.active[:] = active
    replicas.weight[:] = weights[: len(active)]
    return replicas


fleets = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from([0.0, 0.2, 1.0])), min_size=1, max_size=30
).map(lambda rows: loaded([active for active, _ in rows], [weight for _, weight in rows]))


@given(replicas=fleets, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_it_names_a_replica_that_is_in(policy: Policy, replicas: Replicas, seed: int) -> None:
    chosen = policy(replicas, ARRIVAL, new_random(seed))
    if (replicas.weight > 0).any():
        assert replicas.weight[chosen] > 0
    else:
        assert chosen == -1


@given(replicas=fleets, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_least_active_names_one_with_the_least_load(replicas: Replicas, seed: int) -> None:
    inside = replicas.weight > 0
    chosen = compiled_least_active()(replicas, ARRIVAL, new_random(seed))
    if inside.any():
        loads = np.where(inside, replicas.active / np.where(inside, replicas.weight, 1), np.inf)
        assert loads[chosen] == loads.min()


def test_round_robin_takes_turns_and_leaves_out_those_that_are_out() -> None:
    replicas, random = loaded([0] * 4, [1, 1, 0, 1]), new_random(0)
    chosen = compile_policy(POLICIES["round-robin"])
    assert [chosen(replicas, ARRIVAL, random) for _ in range(7)] == [0, 1, 3, 0, 1, 3, 0]


@pytest.mark.parametrize("name", ["random", "least-active"])
def test_equals_are_named_equally_often(name: str) -> None:
    replicas, random, chosen = new_replicas(10), new_random(3), compile_policy(POLICIES[name])
    named = np.bincount([chosen(replicas, ARRIVAL, random) for _ in range(20_000)], minlength=10)
    assert named == pytest.approx(2000, rel=0.12)


def test_plain_python_names_the_same() -> None:
    program = (
        "from kilocard.routing.policies import POLICIES; from kilocard.routing.replicas import *; "
        "from kilocard.routing.chance import new_random; r = new_random(5); f = new_replicas(7); "
        "print([int(POLICIES[n](f, Arrival(1, 1, -1, 0), r)) for n in sorted(POLICIES) for _ in range(20)])"
    )
    plain = subprocess.run(
        [sys.executable, "-c", f"import os; os.environ['NUMBA_DISABLE_JIT'] = '1'; {program}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    random, replicas = new_random(5), new_replicas(7)
    compiled = [compile_policy(POLICIES[name]) for name in sorted(POLICIES)]
    named = [int(policy(replicas, ARRIVAL, random)) for policy in compiled for _ in range(20)]
    assert str(named) == plain.stdout.strip()


_least_active: list[Policy] = []


def compiled_least_active() -> Policy:
    if not _least_active:
        _least_active.append(compile_policy(POLICIES["least-active"]))
    return _least_active[0]
