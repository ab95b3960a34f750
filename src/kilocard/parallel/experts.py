"""Experts over several cards: each cut (tensor parallel), or dealt out whole (expert parallel)."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kilocard.errors import KilocardError
from kilocard.facts.model import Moe
from kilocard.parallel.given import amounts, count

Floats = NDArray[np.float64]
FEW_TOKENS, DRAWS, FEWER_DRAWS = 4096, 400, 40


def experts_touched(experts: int, experts_per_token: int, tokens: ArrayLike) -> Floats:
    """Distinct experts of a layer that so many tokens choose, in expectation: E (1 − (1 − k / E)^tokens).

    Each token is taken to choose its k of E at random; real routers are less even, so a batch touches fewer
    and the busiest is busier. None where there are no experts.
    """
    choosing = amounts(tokens, "tokens")
    if isinstance(experts, int) and not experts:
        return np.zeros(choosing.shape)
    of = count(experts, "experts: a layer has 0 or more")
    chosen = count(experts_per_token, f"experts a token: give 1 to {of}")
    if chosen > of:
        raise KilocardError(f"{chosen} experts a token of {of}: give 1 to {of}")
    missed = (1 - chosen / of) ** choosing
    return np.asarray(of * (1 - missed))


def busiest_share(moe: Moe, tokens: int, ranks: int, seed: int = 0) -> float:
    """How much more the busiest rank has to do than the mean one, where experts are dealt out whole.

    Tokens that the fullest rank gets ÷ tokens a rank on average, over 400 random batches: 1 is even. The step
    waits for the busiest. Raises KilocardError where the experts cannot be dealt out.
    """
    dealt = f"ranks for {moe.experts} experts: deal them out to 1 to {moe.experts}"
    ranks, tokens = count(ranks, dealt), count(tokens, "tokens choose no expert: give 1 or more")
    if ranks > moe.experts:
        raise KilocardError(f"{ranks} {dealt}")
    chance = np.random.default_rng(seed)
    held = _experts_held(moe.experts, ranks)
    choices = tokens * moe.experts_per_token
    draws = DRAWS if tokens < FEW_TOKENS else FEWER_DRAWS
    fullest = [_tokens_by_rank(chance, moe, tokens, held).max() for _ in range(draws)]
    return float(np.mean(fullest)) / (choices / ranks)


def _experts_held(experts: int, ranks: int) -> NDArray[np.int64]:
    """The rank of each expert, dealt out in runs as vLLM does by default."""
    return np.arange(experts) // ceil(experts / ranks)


def _tokens_by_rank(chance: Any, moe: Moe, tokens: int, held: NDArray[np.int64]) -> NDArray[np.int64]:
    """One random batch: each token's k experts, all different, counted by the rank that has them."""
    draws = chance.random((tokens, moe.experts))
    chosen = np.argpartition(draws, moe.experts_per_token - 1, axis=1)[:, : moe.experts_per_token]
    return np.bincount(held[chosen].ravel(), minlength=int(held.max()) + 1)
