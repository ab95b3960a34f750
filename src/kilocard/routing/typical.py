"""What is usual in a fleet, for policies that weigh one replica against the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import compiled
from kilocard.routing.chance import below
from kilocard.routing.replicas import Replicas

CHANCE = 1.5
"""Times: what lies nearer together may differ by chance, and to follow that would send all to one place."""


class Usual(NamedTuple):
    """Of the replicas that are in: the harmonic means, which one slow replica hardly moves, of what is known
    of their seconds a token, of their seconds a prompt token, and of how slow they are; and the requests in
    flight per weight."""

    tpot_s: float
    prefill_s: float
    slowness: float
    active: float


@compiled
def usual(replicas: Replicas) -> Usual:
    """Of the present moment; where nothing is known, 0 seconds, and a slowness of 1."""
    active = weight = 0.0
    tpots = prefills = slownesses = 0.0
    known_tpots = known_prefills = known_slownesses = 0
    for r in range(len(replicas.active)):
        if replicas.weight[r] > 0:
            active += replicas.active[r]
            weight += replicas.weight[r]
            if replicas.tpot_s[r] > 0:
                known_tpots += 1
                tpots += 1 / replicas.tpot_s[r]
            if replicas.prefill_s[r] > 0:
                known_prefills += 1
                prefills += 1 / replicas.prefill_s[r]
            if replicas.slowness[r] > 0:
                known_slownesses += 1
                slownesses += 1 / replicas.slowness[r]
    return Usual(
        known_tpots / tpots if tpots > 0 else 0.0,
        known_prefills / prefills if prefills > 0 else 0.0,
        known_slownesses / slownesses if slownesses > 0 else 1.0,
        active / weight if weight > 0 else 0.0,
    )


@compiled
def leveled(known: float, usual_of_all: float) -> float:
    """What is known of a replica, in whatever measure; as usual where that may be chance, or nothing is
    known."""
    if known > CHANCE * usual_of_all or 0 < known < usual_of_all / CHANCE:
        return known
    return usual_of_all


@compiled
def a_slow_one(replicas: Replicas, random: NDArray[np.int64]) -> int:
    """Any replica that is in and known as slower than usual; -1 where there is none."""
    now = usual(replicas)
    chosen = -1
    found = 0
    for r in range(len(replicas.active)):
        writes_slowly = replicas.slowness[r] > CHANCE * now.slowness
        reads_slowly = replicas.prefill_s[r] > CHANCE * now.prefill_s
        if (writes_slowly or reads_slowly) and replicas.weight[r] > 0:
            found += 1
            if below(random, found) == 0:
                chosen = r
    return chosen
