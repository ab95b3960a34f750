"""What a step of one rank reads and computes, whatever the card."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kilocard.facts.dtypes import KvDtype, WeightDtype
from kilocard.facts.model import Model
from kilocard.facts.parts import Role, parts
from kilocard.parallel.experts import experts_touched

DELTA_RULE_FLOPS = 6
"""Per element of recurrent state and token: decay and recall, write, read, two FLOPs each."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepTerms:
    """What one rank's step reads and computes, as coefficients of batch and context; no card in it.

    Bytes: all resident weights once a step (the field's rule of thumb bandwidth / bytes of weights; an untied
    input table is in them though only gathered from), of the experts those that the batch touches; KV of
    every token; recurrent state, read and written. FLOPs: 2 a multiplied weight and token, `quantized` at the
    peak of the weights' format, `plain` (LM head, router) and attention at the 16-bit peak.
    """

    shared_bytes: int
    expert_bytes: int
    experts: int
    experts_per_token: int
    kv_bytes_per_token: int
    state_bytes_per_sequence: int
    quantized_flops_per_token: float
    plain_flops_per_token: float
    head_flops_per_token: float
    decode_attention_flops: float
    prefill_attention_flops: float
    state_flops_per_token: float

    def experts_touched(self, tokens: ArrayLike) -> Floats:
        """Distinct experts of a layer that so many tokens touch, in expectation."""
        return experts_touched(self.experts, self.experts_per_token, tokens)

    def weights_read(self, tokens: ArrayLike) -> Floats:
        """Bytes of weights that a step of so many tokens reads."""
        share = self.experts_touched(tokens) / self.experts if self.experts else np.zeros(np.shape(tokens))
        return np.asarray(self.shared_bytes + self.expert_bytes * share)

    def decode_bytes(self, batch: ArrayLike, context: ArrayLike) -> Floats:
        """Bytes of a decode step: weights, KV of `batch` sequences of `context` tokens, their state twice."""
        sequences, tokens = np.asarray(batch, dtype=float), np.asarray(context, dtype=float)
        per_sequence = tokens * self.kv_bytes_per_token + 2 * self.state_bytes_per_sequence
        return np.asarray(self.weights_read(sequences) + sequences * per_sequence)

    def decode_plain_flops(self, batch: ArrayLike, context: ArrayLike) -> Floats:
        """FLOPs of a decode step in 16 bit: LM head, router, attention, state."""
        per_token = self.plain_flops_per_token + self.head_flops_per_token + self.state_flops_per_token
        attention = self.decode_attention_flops * np.asarray(context, dtype=float)
        return np.asarray(np.asarray(batch, dtype=float) * (per_token + attention))


@lru_cache(maxsize=256)
def step_terms(model: Model, weights: WeightDtype, kv: KvDtype, tp: int = 1) -> StepTerms:
    """The coefficients of one rank's step."""
    used, experts = (model.moe.experts_per_token, model.moe.experts) if model.moe else (0, 0)
    on_rank = {role: sum(part.on_rank(tp) for part in parts(model) if part.role is role) for role in Role}
    expert_bytes = sum(part.bytes(weights, tp) for part in parts(model) if part.role is Role.EXPERT)
    active_experts = on_rank[Role.EXPERT] * used / experts if experts else 0.0
    state = model.linear_attention
    state_elements = state.layers * state.value_size * state.key_head_dim if state else 0
    return StepTerms(
        shared_bytes=sum(part.bytes(weights, tp) for part in parts(model)) - expert_bytes,
        expert_bytes=expert_bytes,
        experts=experts,
        experts_per_token=used,
        kv_bytes_per_token=model.kv_bytes_per_token(kv, tp),
        state_bytes_per_sequence=model.state_bytes_per_sequence(tp),
        quantized_flops_per_token=2.0 * (on_rank[Role.LINEAR] + active_experts),
        plain_flops_per_token=2.0 * on_rank[Role.PLAIN],
        head_flops_per_token=2.0 * on_rank[Role.HEAD],
        decode_attention_flops=_attention_flops(model, decode=True) / tp,
        prefill_attention_flops=_attention_flops(model, decode=False) / tp,
        state_flops_per_token=DELTA_RULE_FLOPS * state_elements / tp,
    )


def _attention_flops(model: Model, decode: bool) -> float:
    """FLOPs a query and key pair, all layers: 2 for the score and 2 for the sum, a head's element.

    MLA decodes against the latent itself (the absorbed form), and prefills with expanded keys and values.
    """
    if not model.mla:
        return 4.0 * model.attention_layers * model.attention_heads * model.head_dim
    mla = model.mla
    expanded = mla.qk_nope_head_dim + mla.qk_rope_head_dim + mla.v_head_dim
    width = mla.latent_size + mla.kv_lora_rank if decode else expanded
    return 2.0 * model.attention_layers * model.attention_heads * width


def prefill_flops(terms: StepTerms, tokens: int) -> tuple[float, float]:
    """FLOPs of one prompt's prefill at the weights' peak and at the 16-bit peak.

    Causal attention pairs each token with those up to it, T (T + 1) / 2 in all; the LM head the last alone.
    """
    pairs = tokens * (tokens + 1) / 2
    plain = tokens * (terms.plain_flops_per_token + terms.state_flops_per_token) + terms.head_flops_per_token
    return tokens * terms.quantized_flops_per_token, plain + pairs * terms.prefill_attention_flops
