"""Policies that look at a copy of the counts, taken now and then: what a gateway sees that polls its engines.

A policy has no clock, so the copy is made anew once every so many requests: at 80 a second, 80 are a second.
The copy lies in `credit`, the number of requests in the third place of the random state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import compiled
from kilocard.errors import KilocardError
from kilocard.routing.chance import below
from kilocard.routing.replicas import Arrival, Policy, Replicas

AGES_S = (0.0, 0.1, 0.3, 1.0, 5.0)


def idlest(every: int) -> Policy:
    """The one that had the fewest in flight when it was last asked."""
    _require_count(every)

    def idlest_when_asked(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
        look(replicas, random, every)
        return fewest_seen(replicas, random)

    return idlest_when_asked


def better_of_two(every: int) -> Policy:
    """Of two at random the one that had fewer in flight when it was last asked."""
    _require_count(every)

    def better_of_two_when_asked(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
        look(replicas, random, every)
        one, other = below(random, len(replicas.active)), below(random, len(replicas.active))
        return other if replicas.credit[other] < replicas.credit[one] else one

    return better_of_two_when_asked


def with_own_since(every: int) -> Policy:
    """The one that had the fewest when it was last asked, with those that were sent there since."""
    _require_count(every)

    def with_own_since_asked(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
        look(replicas, random, every)
        chosen = fewest_seen(replicas, random)
        replicas.credit[chosen] += 1
        return chosen

    return with_own_since_asked


@compiled
def look(replicas: Replicas, random: NDArray[np.int64], every: int) -> None:
    """One more request; the copy is made anew when it is time."""
    random[2] += 1
    if random[2] % every == 0:
        for r in range(len(replicas.active)):
            replicas.credit[r] = replicas.active[r]


@compiled
def fewest_seen(replicas: Replicas, random: NDArray[np.int64]) -> int:
    """The least of the copy; of equals the first from a random start."""
    count = len(replicas.active)
    start = below(random, count)
    best = start
    for step in range(1, count):
        r = (start + step) % count
        if replicas.credit[r] < replicas.credit[best]:
            best = r
    return best


def _require_count(every: int) -> None:
    if every < 1:
        raise KilocardError(f"a copy made anew every {every} requests: give 1, for each, or more")
