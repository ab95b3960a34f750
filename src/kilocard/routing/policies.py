"""Routing policies: plain functions over the columns of `Replicas`, compiled to one signature.

A policy that is written in a notebook runs in the simulator and in a gateway alike. None chooses a replica of
weight 0, and among equals each has the same chance.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from kilocard.engine_model.compiled import compiled, compiled_choice
from kilocard.routing import costs
from kilocard.routing.chance import below, new_random
from kilocard.routing.company import settle_paces
from kilocard.routing.own import compile_own
from kilocard.routing.replicas import Arrival, Policy, Replicas, new_replicas
from kilocard.routing.typical import Usual, a_slow_one, usual

SIGNATURE = types.int64(typeof(new_replicas(1)), typeof(Arrival(0, 0, 0, 0)), typeof(new_random(0)))
POLICY_TYPE = types.FunctionType(SIGNATURE)

REFERENCE = "least-delay"
"""The gateway's own choice, unless its cluster file names another."""

TRICKLE = 600
"""One request in so many goes to a slow replica."""

Cost = Callable[[Replicas, Arrival, int, Usual], float]


def at_random(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
    """Any replica that is in."""
    count = 0
    for r in range(len(replicas.active)):
        count += replicas.weight[r] > 0
    left = below(random, count)
    for r in range(len(replicas.active)):
        if replicas.weight[r] > 0:
            if left == 0:
                return r
            left -= 1
    return -1


def round_robin(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
    """The next replica that is in; the turn is kept in the random state's last place."""
    count = len(replicas.active)
    for _ in range(count):
        random[2] = (random[2] + 1) % count
        if replicas.weight[random[2]] > 0:
            return random[2]
    return -1


def weighted_round_robin(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
    """Each in proportion to its weight, as evenly in time as can be: all earn their weight, and who has the
    most pays what was earned (nginx's smooth round robin)."""
    best = -1
    earned = 0.0
    ties = 0
    for r in range(len(replicas.active)):
        if replicas.weight[r] > 0:
            earned += replicas.weight[r]
            replicas.credit[r] += replicas.weight[r]
            if best >= 0 and replicas.credit[r] == replicas.credit[best]:
                ties += 1
                if below(random, ties) == 0:
                    best = r
            elif best < 0 or replicas.credit[r] > replicas.credit[best]:
                best = r
                ties = 1
    if best >= 0:
        replicas.credit[best] -= earned
    return best


def power_of_two(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
    """Of two replicas at random the one with fewer requests in flight per weight."""
    count = 0
    for r in range(len(replicas.active)):
        count += replicas.weight[r] > 0
    if count == 0:
        return -1
    first = below(random, count)
    second = (first + 1 + below(random, count - 1)) % count if count > 1 else first
    one = other = -1
    for r in range(len(replicas.active)):
        if replicas.weight[r] > 0:
            one = r if first == 0 else one
            other = r if second == 0 else other
            first -= 1
            second -= 1
    return other if costs.load(replicas, other) < costs.load(replicas, one) else one


def least_active(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
    """The replica with the fewest requests in flight per weight; ties go to the first from a random start."""
    count = len(replicas.active)
    start = below(random, count)
    best = -1
    active = weight = 0.0
    for part in range(2):
        for r in range(0 if part else start, start if part else count):
            fewer = replicas.active[r] * weight < active * replicas.weight[r]
            if fewer or (best < 0 and replicas.weight[r] > 0):
                best = r
                active = replicas.active[r]
                weight = replicas.weight[r]
    return best


def least(cost: Cost) -> Policy:
    """The policy that names the replica of least cost."""

    def policy(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
        now = usual(replicas)
        best = -1
        ties = 0
        lowest = inf
        for r in range(len(replicas.active)):
            if replicas.weight[r] > 0:
                asked = cost(replicas, arrival, r, now)
                if asked < lowest or best < 0:
                    best = r
                    ties = 1
                    lowest = asked
                elif asked == lowest:
                    ties += 1
                    if below(random, ties) == 0:
                        best = r
        return best

    policy.__name__, policy.__doc__ = cost.__name__, cost.__doc__
    return policy


_to_least_delay = compiled(least(costs.delay))


def least_delay(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
    """Where the request costs itself and others the least time. Now and then one goes to a replica that is
    known as slow, or else nobody would see it get well."""
    if below(random, TRICKLE) == 0:
        slow = a_slow_one(replicas, random)
        if slow >= 0:
            return slow
    settle_paces(replicas.company)
    return _to_least_delay(replicas, arrival, random)


POLICIES: dict[str, Policy] = {
    "random": at_random,
    "round-robin": round_robin,
    "weighted-round-robin": weighted_round_robin,
    "power-of-two": power_of_two,
    "least-active": least_active,
    "expected-wait": least(costs.expected_wait),
    "least-remaining-tokens": least(costs.remaining_tokens),
    "short-queue-long-cache": least(costs.by_length),
    "prefix-affinity": least(costs.bounded_affinity),
    "least-delay": least_delay,
}


COUNTING = (at_random, round_robin, weighted_round_robin, power_of_two, least_active)


def looks_beyond_counts(policy: Policy) -> bool:
    """Whether a policy may look at more than weights and requests in flight: a user's own may."""
    return policy not in COUNTING


def compile_policy(policy: Policy) -> Policy:
    """The policy in machine code, at the one signature that the simulation loop calls; one that is not of
    `POLICIES`, which the tests know to stay within its columns, looks at their bounds."""
    if policy not in POLICIES.values():
        return compile_own(policy, SIGNATURE)
    return compiled_choice(policy, SIGNATURE)
