"""What it costs to send a request to a replica: the least is chosen, and each policy counts in its own way.

A cost is a function of (replicas, arrival, r, usual); what is not known of a replica is taken as usual.
"""

from __future__ import annotations

from kilocard.engine_model.compiled import compiled
from kilocard.routing.company import pace_s
from kilocard.routing.replicas import Arrival, Replicas
from kilocard.routing.typical import Usual, leveled

SHORT_TOKENS = 1024
"""Of prompt and answer together: what is over that goes where the KV cache is free."""
BOUND = 1.25
"""Times the mean load that a replica may have and still be chosen for what its cache holds."""
PAUSED = 0.5
"""Of the seconds in which a prompt is read, what those lose who write meanwhile."""
EMPTIER = 0.02
"""Of a token's time, what one more costs each of the others where no slowing is seen: room is worth a
little."""
STAYING = 0.01
"""Of a request that has its whole answer before it, added to what it counts as company: so little that it
decides between equals alone."""
FAR = 1e9
"""More than any load: puts one thing before another, whatever the second is."""


@compiled
def load(replicas: Replicas, r: int) -> float:
    """Requests in flight per weight."""
    return replicas.active[r] / replicas.weight[r]


@compiled
def tpot_s(replicas: Replicas, r: int, usual: Usual) -> float:
    """Rolling seconds an output token; before anything is known of any replica, all are alike."""
    known = replicas.tpot_s[r] if replicas.tpot_s[r] > 0 else usual.tpot_s
    return known if known > 0 else 1.0


@compiled
def expected_wait(replicas: Replicas, arrival: Arrival, r: int, usual: Usual) -> float:
    """Seconds until all in flight, and this one, had a token each, were they to come one after the other."""
    return (replicas.active[r] + 1) * tpot_s(replicas, r, usual) / replicas.weight[r]


@compiled
def remaining_tokens(replicas: Replicas, arrival: Arrival, r: int, usual: Usual) -> float:
    """Output tokens still to come there."""
    return (replicas.output_left[r] + arrival.expected_tokens) / replicas.weight[r]


@compiled
def by_length(replicas: Replicas, arrival: Arrival, r: int, usual: Usual) -> float:
    """Of a short request the queue that it meets, of a long one the KV cache that is taken."""
    if arrival.prompt_tokens + arrival.expected_tokens <= SHORT_TOKENS:
        return load(replicas, r)
    return (1 - replicas.kv_free[r]) / replicas.weight[r] + load(replicas, r) / FAR


@compiled
def company(replicas: Replicas, arrival: Arrival, r: int) -> float:
    """Requests in flight; among as many, those that have less before them count for less."""
    alike = min(float(replicas.active[r]), replicas.output_left[r] / max(1, arrival.expected_tokens))
    return replicas.active[r] + STAYING * alike


@compiled
def delay(replicas: Replicas, arrival: Arrival, r: int, usual: Usual) -> float:
    """Seconds that the request takes there and takes from others: the prompts before it, and what no cache
    holds of its own, for which those pause who write or wait; then its answer, in its company, and what each
    of these loses by it.

    Where company costs little, as the pool has learned, requests follow their caches.
    """
    queued = replicas.prompt_tokens[r]
    uncached = max(0, arrival.prompt_tokens - replicas.cached_tokens[r])
    delayed = PAUSED * replicas.active[r] + queued / max(1, arrival.prompt_tokens)
    reads_s = leveled(replicas.prefill_s[r], usual.prefill_s) * (queued + uncached * (1 + delayed))
    others = company(replicas, arrival, r)
    own_s = pace_s(replicas.company, others + 1)
    lost_s = max(0.0, own_s - pace_s(replicas.company, others)) + EMPTIER * own_s
    times = leveled(replicas.slowness[r], usual.slowness)
    writes_s = arrival.expected_tokens * times * (own_s + others * lost_s)
    return (reads_s + writes_s) / replicas.weight[r]


@compiled
def bounded_affinity(replicas: Replicas, arrival: Arrival, r: int, usual: Usual) -> float:
    """Prompt tokens that the cache lacks, then load; a replica that is over the bound comes after all
    others."""
    uncached = max(0, arrival.prompt_tokens - replicas.cached_tokens[r])
    over = (replicas.active[r] + 1) / replicas.weight[r] > BOUND * (usual.active + 1)
    return load(replicas, r) + FAR * (uncached + FAR * over)
