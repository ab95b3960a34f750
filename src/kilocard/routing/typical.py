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
    """Of the replicas that are in: the harmonic means of what is known of their seconds a token, which one
    slow replica hardly moves, and the requests in flight per weight."""

    tpot_s: float
    prefill_s: float
    active: float


@compiled
def usual(replicas: Replicas) -> Usual:
    """Of the present moment; 0 where nothing is known."""
    paces = prefills = known_paces = known_prefills = active = weight = 0.0
    for r in range(len(replicas.active)):
        if replicas.weight[r] > 0:
            active += replicas.active[r]
            weight += replicas.weight[r]
            if replicas.tpot_s[r] > 0:
                known_paces += 1
                paces += 1 / replicas.tpot_s[r]
            if replicas.prefill_s[r] > 0:
                known_prefills += 1
                prefills += 1 / replicas.prefill_s[r]
    return Usual(
        known_paces / paces if paces > 0 else 0.0,
        known_prefills / prefills if prefills > 0 else 0.0,
        active / weight if weight > 0 else 0.0,
    )


@compiled
def leveled(known_s: float, usual_s: float) -> float:
    """What is known of a replica; as usual where that may be chance, or nothing is known."""
    if known_s > CHANCE * usual_s or 0 < known_s < usual_s / CHANCE:
        return known_s
    return usual_s


@compiled
def a_slow_one(replicas: Replicas, random: NDArray[np.int64]) -> int:
    """Any replica that is in and known as slower than usual; -1 where there is none."""
    now = usual(replicas)
    chosen = -1
    found = 0
    for r in range(len(replicas.active)):
        slow = replicas.tpot_s[r] > CHANCE * now.tpot_s or replicas.prefill_s[r] > CHANCE * now.prefill_s
        if slow and replicas.weight[r] > 0:
            found += 1
            if below(random, found) == 0:
                chosen = r
    return chosen
