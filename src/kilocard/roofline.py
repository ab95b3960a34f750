"""The bounds of prefill and decode that a datasheet sets, and which resource sets them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.card import Card
from kilocard.facts.dtypes import KvDtype, WeightDtype, kv_dtype, weight_dtype
from kilocard.facts.model import Model
from kilocard.facts.parts import Role, parts
from kilocard.facts.sharding import check_tensor_parallel
from kilocard.memory import MOST_SEQUENCES, MOST_TOKENS, check_count, unverified

ALLREDUCE_S = 10e-6
"""Estimate: start-up time of an allreduce over two cards, growing by as much with each doubling of them.
From a fit of published step times of vLLM on H100 with NVLink; unverified for other links."""
ALLREDUCES_PER_LAYER = 2
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
        """Distinct experts a layer that so many tokens touch in expectation: E (1 - (1 - k/E)^tokens)."""
        if not self.experts:
            return np.zeros(np.shape(tokens))
        missed = (1 - self.experts_per_token / self.experts) ** np.asarray(tokens, dtype=float)
        return np.asarray(self.experts * (1 - missed))

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


@dataclass(frozen=True, slots=True)
class Peaks:
    """The rates of a card that bound a step."""

    bytes_per_s: float
    quantized_flops_per_s: float
    plain_flops_per_s: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """The datasheet's bounds, for one tensor-parallel rank (all ranks run alike); seconds, bytes, FLOPs.

    `decode_step_s` is one token for each of `batch` sequences, `prefill_s` one prompt of `context_tokens`;
    the collectives of tensor parallelism stand apart in `collective_s` and `prefill_collective_s`, None where
    the link's rate is unknown. `batch_at_ridge` is the least batch that compute limits at this context (None
    where none does: KV grows with the batch too), `batch_at_ridge_without_kv` the one by weights alone.
    """

    model: str
    card: str
    weights: str
    kv: str
    batch: int
    context_tokens: int
    tensor_parallel: int
    decode_step_s: float
    decode_memory_s: float
    decode_compute_s: float
    decode_tokens_per_s: float
    limited_by: str
    collective_s: float | None
    decode_bytes: int
    decode_weights_read_bytes: int
    decode_kv_read_bytes: int
    decode_state_bytes: int
    decode_weights_share: float
    decode_kv_share: float
    decode_flops: float
    decode_flops_per_byte: float
    ridge_flops_per_byte: float
    batch_at_ridge: int | None
    batch_at_ridge_without_kv: int | None
    experts_touched_per_layer: float
    prefill_s: float
    prefill_memory_s: float
    prefill_compute_s: float
    prefill_tokens_per_s: float
    prefill_limited_by: str
    prefill_collective_s: float | None
    prefill_flops: float
    prefill_bytes: int
    memory_bandwidth_bytes_per_s: float
    peak_flops_per_s: float
    notes: tuple[str, ...]
    unverified: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as `--json` prints them."""
        return asdict(self)


def roofline(
    model: Model | str,
    card: Card | str,
    *,
    weights: str = "bf16",
    kv: str = "bf16",
    batch: int,
    context: int,
    tp: int = 1,
) -> Roofline:
    """Bounds of a decode step of `batch` sequences at `context` tokens, and of the prefill of one prompt.

    Time = max(bytes / bandwidth, FLOPs / peak) (Williams et al., Roofline, CACM 2009). FP8 and INT8 weights
    multiply at their own peak where the card has one, INT4 at the 16-bit peak.
    Raises KilocardError on an unknown name, a number out of range or a card whose needed rate is unknown.
    """
    model, card = facts.model(model), facts.card(card)
    weight, cache = weight_dtype(weights), kv_dtype(kv)
    batch = check_count("batch", batch, MOST_SEQUENCES, "sequences")
    context = check_count("context", context, MOST_TOKENS, "tokens")
    tp = check_tensor_parallel(model, tp)
    terms, limits = step_terms(model, weight, cache, tp), peaks(card, weight)

    decode_memory_s, decode_compute_s = _decode_times(terms, limits, batch, context)
    decode_flops = batch * terms.quantized_flops_per_token + float(terms.decode_plain_flops(batch, context))
    decode_bytes = float(terms.decode_bytes(batch, context))
    weights_read = float(terms.weights_read(batch))
    kv_read = batch * context * terms.kv_bytes_per_token
    quantized_flops, plain_flops = prefill_flops(terms, context)
    prefill_bytes = (
        float(terms.weights_read(context))
        + context * terms.kv_bytes_per_token
        + terms.state_bytes_per_sequence
    )
    prefill_memory_s = prefill_bytes / limits.bytes_per_s
    prefill_compute_s = (
        quantized_flops / limits.quantized_flops_per_s + plain_flops / limits.plain_flops_per_s
    )
    step_s, prefill_s = max(decode_memory_s, decode_compute_s), max(prefill_memory_s, prefill_compute_s)
    return Roofline(
        model=model.id,
        card=card.id,
        weights=weight.value,
        kv=cache.value,
        batch=batch,
        context_tokens=context,
        tensor_parallel=tp,
        decode_step_s=step_s,
        decode_memory_s=decode_memory_s,
        decode_compute_s=decode_compute_s,
        decode_tokens_per_s=batch / step_s,
        limited_by=_limiting(decode_memory_s, decode_compute_s),
        collective_s=collective_s(model, card, batch, tp),
        decode_bytes=round(decode_bytes),
        decode_weights_read_bytes=round(weights_read),
        decode_kv_read_bytes=kv_read,
        decode_state_bytes=2 * batch * terms.state_bytes_per_sequence,
        decode_weights_share=weights_read / decode_bytes,
        decode_kv_share=kv_read / decode_bytes,
        decode_flops=decode_flops,
        decode_flops_per_byte=decode_flops / decode_bytes,
        ridge_flops_per_byte=limits.quantized_flops_per_s / limits.bytes_per_s,
        batch_at_ridge=batch_at_ridge(terms, limits, context),
        batch_at_ridge_without_kv=batch_at_ridge(terms, limits, 0),
        experts_touched_per_layer=float(terms.experts_touched(batch)),
        prefill_s=prefill_s,
        prefill_memory_s=prefill_memory_s,
        prefill_compute_s=prefill_compute_s,
        prefill_tokens_per_s=context / prefill_s,
        prefill_limited_by=_limiting(prefill_memory_s, prefill_compute_s),
        prefill_collective_s=collective_s(model, card, context, tp),
        prefill_flops=quantized_flops + plain_flops,
        prefill_bytes=round(prefill_bytes),
        memory_bandwidth_bytes_per_s=limits.bytes_per_s,
        peak_flops_per_s=limits.quantized_flops_per_s,
        notes=_notes(card, weight, tp),
        unverified=unverified(model, card, *_used_fields(card, weight, tp)),
    )


def decode_step_s(
    model: Model | str,
    card: Card | str,
    *,
    weights: str = "bf16",
    kv: str = "bf16",
    batch: ArrayLike,
    context: ArrayLike,
    tp: int = 1,
) -> Floats:
    """`roofline(...).decode_step_s` for arrays of batch and context, broadcast together; seconds."""
    model, card, weight = facts.model(model), facts.card(card), weight_dtype(weights)
    tp = check_tensor_parallel(model, tp)
    if np.min(batch) < 1 or np.min(context) < 1:
        raise KilocardError("batch and context have to be at least 1 throughout")
    terms = step_terms(model, weight, kv_dtype(kv), tp)
    memory_s, compute_s = _decode_arrays(terms, peaks(card, weight), batch, context)
    return np.asarray(np.maximum(memory_s, compute_s))


def peaks(card: Card | str, weights: WeightDtype | str) -> Peaks:
    """The rates of `card` that bound a step with such weights."""
    card, weight = facts.card(card), weight_dtype(weights)
    plain = WeightDtype.FP32 if weight is WeightDtype.FP32 else WeightDtype.BF16
    return Peaks(
        card.memory_bandwidth_bytes_per_s, card.peak_flops_per_s(weight), card.peak_flops_per_s(plain)
    )


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


def batch_at_ridge(terms: StepTerms, limits: Peaks, context: int) -> int | None:
    """The least batch whose decode step compute limits at that context; None where none up to 10^6 is."""

    def compute_bound(batch: int) -> bool:
        memory_s, compute_s = _decode_times(terms, limits, batch, context)
        return compute_s >= memory_s

    low, high = 0, MOST_SEQUENCES
    if not compute_bound(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if compute_bound(middle) else (middle, high)
    return high


def collective_s(model: Model | str, card: Card | str, tokens: int, tp: int) -> float | None:
    """Time a step of `tokens` tokens spends in allreduces: an estimate; 0 at TP 1, None on an unknown link.

    Two a layer, of tokens x hidden 16-bit elements, as a ring: 2 (n - 1) / n x bytes / one-way bandwidth
    (Patarasuk and Yuan, 2009), and a start-up time of 10 us x (1 + log2(n / 2)).
    """
    if tp == 1:
        return 0.0
    model, card = facts.model(model), facts.card(card)
    bandwidth = facts.link(card.link).one_way_bytes_per_s
    if bandwidth is None:
        return None
    moved = 2 * (tp - 1) / tp * tokens * model.hidden_size * 2
    return ALLREDUCES_PER_LAYER * model.layers * (moved / bandwidth + ALLREDUCE_S * (1 + math.log2(tp / 2)))


def _decode_arrays(
    terms: StepTerms, limits: Peaks, batch: ArrayLike, context: ArrayLike
) -> tuple[Floats, Floats]:
    memory_s = terms.decode_bytes(batch, context) / limits.bytes_per_s
    quantized_s = (
        np.asarray(batch, dtype=float) * terms.quantized_flops_per_token / limits.quantized_flops_per_s
    )
    return memory_s, quantized_s + terms.decode_plain_flops(batch, context) / limits.plain_flops_per_s


def _decode_times(terms: StepTerms, limits: Peaks, batch: int, context: int) -> tuple[float, float]:
    memory_s, compute_s = _decode_arrays(terms, limits, batch, context)
    return float(memory_s), float(compute_s)


def _limiting(memory_s: float, compute_s: float) -> str:
    return "memory_bandwidth" if memory_s >= compute_s else "compute"


def _used_fields(card: Card, weights: WeightDtype, tp: int) -> list[str]:
    used = ["memory_bandwidth_gb_per_s", card.peak_field(weights)]
    if weights.quantized and "bf16_tflops" not in used:
        used.append("bf16_tflops")
    return used + (["link"] if tp > 1 else [])


def _notes(card: Card, weights: WeightDtype, tp: int) -> tuple[str, ...]:
    notes = []
    if weights in (WeightDtype.FP8, WeightDtype.INT8) and card.peak_field(weights) == "bf16_tflops":
        notes.append(
            f"{card.id} has no {weights} units: weights are unpacked and multiplied at the 16-bit peak"
        )
    if weights is WeightDtype.INT4:
        notes.append("int4 is W4A16: weights are unpacked and multiplied at the 16-bit peak")
    if tp > 1 and facts.link(card.link).one_way_bytes_per_s is None:
        notes.append(f"collective_s is unknown: no rate for the link {card.link} of {card.id}")
    elif tp > 1:
        notes.append(
            "collective_s is an estimate: ring bandwidth plus a start-up time fitted on H100 with NVLink"
        )
    return tuple(notes)
