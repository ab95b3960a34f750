"""Chapter 8's exercises: whole blocks, the first difference, and how many prefixes fit."""

from __future__ import annotations

from kilocard.facts import KvDtype, model
from kilocard.notebook.exercises.exercise import Exercise

KV_BYTES = 50e9
RUNNING, OWN_TOKENS, SYSTEM_TOKENS = 32, 512, 2048


def _kept() -> float:
    tokens = KV_BYTES / model("qwen3-8b").kv_bytes_per_token(KvDtype.BF16)
    return (tokens - RUNNING * OWN_TOKENS) // SYSTEM_TOKENS


EXERCISES = (
    Exercise(
        "8.1",
        lambda: float(500 // 128 * 128),
        "tokens",
        lambda it: (
            f"Three whole blocks fit into 500 tokens: 3 × 128 = {it:.0f}. The 116 tokens after them are "
            "the beginning of a fourth block that ends in the user's own words, so its hash differs. With "
            "blocks of 16 it would be 496."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "tokens are counted, not whole blocks": 500.0,
            "the last block is taken as shared": 512.0,
            "blocks of a card (16 tokens) are used": 496.0,
        },
    ),
    Exercise(
        "8.2",
        lambda: float(40 // 16 * 16),
        "tokens",
        lambda it: (
            f"The search ends at the first block that differs: 40 ÷ 16 = 2.5, so two blocks, {it:.0f} "
            "tokens. The other 1,960 are the same for everybody and are found by nobody, for a block's "
            "hash covers all that stands before it. Ask for the name to be moved behind the system prompt: "
            "then all 125 blocks of it are found."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "tokens are counted, not whole blocks": 40.0,
            "only the block with the name is lost": 1984.0,
            "the name is thought to cost nothing": 2000.0,
        },
    ),
    Exercise(
        "8.3",
        _kept,
        "customers",
        lambda it: (
            "50 GB ÷ 147,456 bytes = 339,084 tokens; 32 × 512 = 16,384 of them belong to those who run; "
            f"the rest holds {it:.0f} prompts of 2,048. With 500 customers at random, about a third of the "
            "requests find theirs. Four replicas behind a balancer that looks at load alone are no better: "
            "each has the same third. Routed by customer they keep 628 between them, and all 500 stay warm."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {
            "the running requests' own tokens are forgotten": 165.0,
            "four replicas are added up": 4 * _kept(),
        },
    ),
)
