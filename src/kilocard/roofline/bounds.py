"""The roofline of decode and prefill on one card."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.card import Card
from kilocard.facts.dtypes import WeightDtype, kv_dtype, weight_dtype
from kilocard.facts.model import Model
from kilocard.facts.sharding import check_tensor_parallel
from kilocard.memory import MOST_SEQUENCES, MOST_TOKENS, check_count, unverified
from kilocard.roofline.collective import collective_s
from kilocard.roofline.peaks import Peaks, peaks
from kilocard.roofline.terms import Floats, StepTerms, prefill_flops, step_terms


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
            "collective_s is an estimate: start-ups and a ring's bytes, over links as others measured them"
        )
    return tuple(notes)
