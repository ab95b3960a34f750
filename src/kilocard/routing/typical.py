"""What is usual in a fleet, for policies that weigh one replica against the others."""

from __future__ import annotations

from typing import NamedTuple

from kilocard.engine_model.compiled import compiled
from kilocard.routing.replicas import Replicas


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
