"""What it costs to send a request to a replica: the least is chosen, and each policy counts in its own way.

A cost is a function of (replicas, arrival, r, usual); what is not known of a replica is taken as usual.
"""

from __future__ import annotations

from kilocard.engine_model.compiled import compiled
from kilocard.routing.replicas import Arrival, Replicas
from kilocard.routing.typical import Usual

SHORT_TOKENS = 1024
"""Of prompt and answer together: what is over that goes where the KV cache is free."""
BOUND = 1.25
"""Times the mean load that a replica may have and still be chosen for what its cache holds."""
EASY = 4.0
"""Requests in flight that slow each other by as much as one alone takes."""
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
def delay(replicas: Replicas, arrival: Arrival, r: int, usual: Usual) -> float:
    """Seconds until the last token: prompts that wait, and this one's, then its answer at the pace there."""
    uncached = max(0, arrival.prompt_tokens - replicas.cached_tokens[r])
    prefill_s = replicas.prefill_s[r] if replicas.prefill_s[r] > 0 else usual.prefill_s
    reads_s = prefill_s * (replicas.prompt_tokens[r] + uncached)
    writes_s = arrival.expected_tokens * tpot_s(replicas, r, usual) * (1 + replicas.active[r] / EASY)
    return (reads_s + writes_s) / replicas.weight[r]


@compiled
def bounded_affinity(replicas: Replicas, arrival: Arrival, r: int, usual: Usual) -> float:
    """Prompt tokens that the cache lacks, then load; a replica that is over the bound comes after all
    others."""
    uncached = max(0, arrival.prompt_tokens - replicas.cached_tokens[r])
    over = (replicas.active[r] + 1) / replicas.weight[r] > BOUND * (usual.active + 1)
    return load(replicas, r) + FAR * (uncached + FAR * over)
