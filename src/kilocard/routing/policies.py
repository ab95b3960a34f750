"""Routing policies: plain functions over the columns of `Replicas`, compiled to one signature.

A policy that is written in a notebook runs in the simulator and in a gateway alike.
"""

from __future__ import annotations

import numpy as np
from numba import njit, typeof, types
from numpy.typing import NDArray

from kilocard.engine_model.parts import in_haste
from kilocard.routing.chance import below, new_random
from kilocard.routing.own import compile_own
from kilocard.routing.replicas import Arrival, Policy, Replicas, new_replicas

SIGNATURE = types.int64(typeof(new_replicas(1)), typeof(Arrival(0, 0, 0, 0)), typeof(new_random(0)))
POLICY_TYPE = types.FunctionType(SIGNATURE)


def at_random(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
    """Any replica that is in."""
    count = len(replicas.active)
    start = below(random, count)
    for i in range(count):
        r = (start + i) % count
        if replicas.weight[r] > 0:
            return r
    return -1


def round_robin(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
    """The next replica that is in; the turn is kept in the random state's last place."""
    count = len(replicas.active)
    for _ in range(count):
        random[2] = (random[2] + 1) % count
        if replicas.weight[random[2]] > 0:
            return random[2]
    return -1


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


POLICIES: dict[str, Policy] = {
    "random": at_random,
    "round-robin": round_robin,
    "least-active": least_active,
}


def compile_policy(policy: Policy) -> Policy:
    """The policy in machine code, at the one signature that the simulation loop calls; one that is not of
    `POLICIES`, which the tests know to stay within its columns, looks at their bounds."""
    if policy not in POLICIES.values():
        return compile_own(policy, SIGNATURE)
    with in_haste():
        compiled: Policy = njit(SIGNATURE, error_model="numpy", _nrt=False)(policy)
    return compiled
