"""One request to make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FIRST_TOKEN_ID = 1000
"""Below it tokenizers keep their control tokens and single bytes."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request to make; its prompt follows from its seeds, so that a workload stays small."""

    request_id: str
    prompt_tokens: int
    max_tokens: int
    stage: int = 0
    scheduled_s: float | None = None
    """Seconds from the start of the stage; None in a closed loop."""
    seed: tuple[int, ...] = (0,)
    prefix_tokens: int = 0
    prefix_seed: tuple[int, ...] = (0,)
    tenant: str | None = None
    priority: str | None = None

    def prompt_ids(self, vocabulary: int) -> list[int]:
        """`prompt_tokens` token ids below `vocabulary`; only the shared prefix recurs in other requests."""
        shared = min(self.prefix_tokens, self.prompt_tokens)
        head = _token_ids(self.prefix_seed, shared, vocabulary) if shared else []
        return head + _token_ids(self.seed, self.prompt_tokens - shared, vocabulary)


def _token_ids(seed: tuple[int, ...], count: int, vocabulary: int) -> list[int]:
    ids = np.random.default_rng(seed).integers(FIRST_TOKEN_ID, vocabulary, count)
    return [int(token) for token in ids]
