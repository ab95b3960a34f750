"""How what a gateway sees of its requests changes the columns of `Replicas`: the same in a gateway and in a
simulation.

Each request is sent once and ended once, whatever happens between, so that no count leaks.
"""

from __future__ import annotations

from math import exp

from kilocard.engine_model.compiled import compiled
from kilocard.routing.company import learn
from kilocard.routing.replicas import Arrival, Replicas

TPOT_MEMORY_TOKENS = 64.0
"""So many tokens later, what was seen before weighs 1/e in the rolling TPOT."""
PREFILL_MEMORY_TOKENS = 4096.0
FEW_PROMPT_TOKENS = 64
"""Prompts under this tell of overheads, not of prefill."""
LEAST_PACE_S = 1e-6
"""Tokens that come faster have come together, and tell of no pace."""
MOST_PAUSED = 0.75
"""Of the time between tokens, what may have gone into prompts: their seconds are reckoned, not seen."""


@compiled
def settle(replicas: Replicas, r: int) -> None:
    """A policy sees the share of a replica while there is room under its cap."""
    full = replicas.cap[r] > 0 and replicas.active[r] >= replicas.cap[r]
    replicas.weight[r] = 0.0 if full else replicas.share[r]


@compiled
def set_share(replicas: Replicas, r: int, share: float) -> None:
    """Health, slowness or the operator say how much of its part a replica shall get."""
    replicas.share[r] = share
    settle(replicas, r)


@compiled
def set_cap(replicas: Replicas, r: int, cap: int) -> None:
    """The most requests in flight; 0 for no limit."""
    replicas.cap[r] = cap
    settle(replicas, r)


@compiled
def requests_s(replicas: Replicas, r: int, now_s: float) -> float:
    """Seconds in flight of all its requests together, up to now; between two moments they grow by the mean
    number in flight."""
    return replicas.request_s[r] + replicas.active[r] * (now_s - replicas.changed_s[r])


@compiled
def mean_company(replicas: Replicas, r: int, before_s: float, seconds: float, now_s: float) -> float:
    """How many were in flight in the `seconds` up to now, at whose begin `requests_s` was `before_s`."""
    return (requests_s(replicas, r, now_s) - before_s) / seconds if seconds > 0 else 1.0


@compiled
def change(replicas: Replicas, r: int, by: int, now_s: float) -> None:
    """Requests join or leave."""
    replicas.request_s[r] = requests_s(replicas, r, now_s)
    replicas.changed_s[r] = now_s
    replicas.active[r] += by
    settle(replicas, r)


@compiled
def sent(replicas: Replicas, r: int, arrival: Arrival, now_s: float) -> int:
    """A request leaves for a replica; returns the prompt tokens that are counted until its first token."""
    uncached = max(0, arrival.prompt_tokens - replicas.cached_tokens[r])
    replicas.prompt_tokens[r] += uncached
    replicas.output_left[r] += arrival.expected_tokens
    change(replicas, r, 1, now_s)
    return uncached


@compiled
def began(replicas: Replicas, r: int, uncached: int, waited_s: float, read_before: int) -> None:
    """Its first token came after `waited_s`: what is left of that beside one step went into the prompts that
    were read meanwhile, its own and those before it; `read_before` is what `read_tokens` was when it left."""
    replicas.prompt_tokens[r] -= uncached
    replicas.read_tokens[r] += uncached
    if uncached < FEW_PROMPT_TOKENS:
        return
    seen = max(0.0, waited_s - replicas.tpot_s[r]) / (replicas.read_tokens[r] - read_before)
    kept = exp(-uncached / PREFILL_MEMORY_TOKENS) if replicas.prefill_s[r] > 0 else 0.0
    replicas.prefill_s[r] = kept * replicas.prefill_s[r] + (1 - kept) * seen


@compiled
def progressed(
    replicas: Replicas, r: int, tokens: int, seconds: float, expected: float, read_before: int, company: float
) -> None:
    """So many tokens of a request came in `seconds` after the one before them; `expected` of those that were
    counted as to come are no longer. `read_before` is what `read_tokens` was at the one before them: for
    prompts that were read since, the answers paused. `company` is how many were in flight meanwhile, in the
    mean and with this one."""
    replicas.output_left[r] -= expected
    if tokens < 1:
        return
    kept = exp(-tokens / TPOT_MEMORY_TOKENS) if replicas.tpot_s[r] > 0 else 0.0
    replicas.tpot_s[r] = kept * replicas.tpot_s[r] + (1 - kept) * seconds / tokens
    paused_s = min((replicas.read_tokens[r] - read_before) * replicas.prefill_s[r], MOST_PAUSED * seconds)
    pace_s = (seconds - paused_s) / tokens
    if pace_s < LEAST_PACE_S:
        return
    times = learn(replicas.company, company, pace_s, tokens)
    replicas.slowness[r] = kept * replicas.slowness[r] + (1 - kept) * times


@compiled
def ended(replicas: Replicas, r: int, uncached: int, expected: float, now_s: float) -> None:
    """It is over, however: what is still counted of it is taken off; `uncached` is 0 once it began."""
    replicas.prompt_tokens[r] -= uncached
    replicas.output_left[r] -= expected
    change(replicas, r, -1, now_s)
