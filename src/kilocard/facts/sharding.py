"""Which tensor-parallel degrees a model can take."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from kilocard.errors import KilocardError
from kilocard.facts.model import Model

LARGEST_TP = 64
VOCAB_PADDING = 64
"""vLLM pads the vocabulary to a multiple of 64 before it deals the rows out."""


def check_tensor_parallel(model: Model, tp: SupportsIndex) -> int:
    """The degree as an int, refused where the model cannot be cut so; the error names those that it can.

    vLLM's own rules: TP divides the attention heads; it divides the KV heads, or they divide it (then each
    is replicated); it divides the linear-attention heads, the MLP widths and the padded vocabulary.
    """
    degree = -1 if isinstance(tp, bool | float) else operator.index(tp)
    if reason := _obstacle(model, degree):
        valid = ", ".join(map(str, valid_tensor_parallel(model)))
        raise KilocardError(f"--tp {tp}: {reason}; valid for {model.id}: {valid}")
    return degree


def valid_tensor_parallel(model: Model) -> list[int]:
    """The degrees up to 64 that the model can be cut into."""
    return [tp for tp in range(1, LARGEST_TP + 1) if not _obstacle(model, tp)]


def _obstacle(model: Model, tp: int) -> str:
    if tp < 1 or tp > LARGEST_TP:
        return f"no whole number from 1 to {LARGEST_TP}"
    if model.attention_heads % tp:
        return f"does not divide the {model.attention_heads} attention heads"
    if not model.mla and model.kv_heads % tp and tp % model.kv_heads:
        return f"neither divides nor is divided by the {model.kv_heads} KV heads"
    uneven = (f"does not divide the {size} {what}" for size, what in _must_divide(model) if size % tp)
    return next(uneven, "")


def _must_divide(model: Model) -> list[tuple[int, str]]:
    sizes = []
    if model.linear_attention:
        sizes.append((model.linear_attention.key_heads, "linear-attention key heads"))
        sizes.append((model.linear_attention.value_heads, "linear-attention value heads"))
    if model.dense_layers:
        sizes.append((model.intermediate_size, "columns of the MLP"))
    if model.moe:
        sizes.append((model.moe.expert_intermediate_size, "columns of an expert"))
        sizes.append((model.moe.shared_intermediate_size, "columns of the shared expert"))
    padded = -(-model.vocab_size // VOCAB_PADDING) * VOCAB_PADDING
    return [*sizes, (padded, "rows of the padded vocabulary")]
