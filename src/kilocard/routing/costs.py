"""What it costs to send a request to a replica: the least is chosen, and each policy counts in its own way.

A cost is a function of (replicas, arrival, r, usual); what is not known of a replica is taken as usual.
"""

from __future__ import annotations

from kilocard.engine_model.compiled import compiled
from kilocard.routing.replicas import Arrival, Replicas
from kilocard.routing.typical import Usual, leveled

SHORT_TOKENS = 1024
"""Of prompt and answer together: what is over that goes where the KV cache is free."""
BOUND = 1.25
"""Times the mean load that a replica may have and still be chosen for what its cache holds."""
EASY = 4.0
"""Requests in flight that hardly slow each other."""
CROWD = 3.0
"""As many beyond them slow each other by as much as one alone takes."""
STAYING = 0.15
"""Of a request that has its whole answer before it, added to what it counts as company."""
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
    """Requests in flight; those that have as much before them as this one count for a little more."""
    alike = min(float(replicas.active[r]), replicas.output_left[r] / max(1, arrival.expected_tokens))
    return replicas.active[r] + STAYING * alike


@compiled
def delay(replicas: Replicas, arrival: Arrival, r: int, usual: Usual) -> float:
    """Seconds that the request takes there and takes from others: the prompts before it, and what no cache
    holds of its own, for which those pause who write or wait; then its answer, slowed by its company.

    A few slow each other little, so they may follow their caches; of many, each slows all.
    """
    active, near = company(replicas, arrival, r), EASY * EASY
    queued = replicas.prompt_tokens[r]
    uncached = max(0, arrival.prompt_tokens - replicas.cached_tokens[r])
    delayed = replicas.active[r] / EASY + queued / max(1, arrival.prompt_tokens)
    reads_s = leveled(replicas.prefill_s[r], usual.prefill_s) * (queued + uncached * (1 + delayed))
    pace_s = leveled(replicas.tpot_s[r], usual.tpot_s if usual.tpot_s > 0 else 1.0)
    crowded = active * active * active / (active * active + near) / CROWD
    writes_s = arrival.expected_tokens * pace_s * (1 + crowded)
    return (reads_s + writes_s) / replicas.weight[r]


@compiled
def bounded_affinity(replicas: Replicas, arrival: Arrival, r: int, usual: Usual) -> float:
    """Prompt tokens that the cache lacks, then load; a replica that is over the bound comes after all
    others."""
    uncached = max(0, arrival.prompt_tokens - replicas.cached_tokens[r])
    over = (replicas.active[r] + 1) / replicas.weight[r] > BOUND * (usual.active + 1)
    return load(replicas, r) + FAR * (uncached + FAR * over)
