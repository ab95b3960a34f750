"""The memory ledger of one card: weights, KV, state, activations, engine, and what is left."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, SupportsIndex

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.card import Card
from kilocard.facts.dtypes import WeightDtype, kv_dtype, weight_dtype
from kilocard.facts.model import Model
from kilocard.facts.parts import parameters, parts, weights_bytes
from kilocard.facts.sharding import check_tensor_parallel
from kilocard.parallel.pipeline import stage_layers

GIB = 2**30
ACTIVATION_BYTES = 2
LOGITS_BYTES_PER_ENTRY = 8
"""FP32 logits, and the copy that sampling makes of them."""

LEAST_USABLE_BYTES = 10**6
CONTEXT_BYTES = 1 * GIB
"""Estimate: driver context, libraries and their workspaces. With graphs and activations it accounts for the
0.9 to 2.0 GB a card that vLLM 0.15.1 gave to neither weights nor KV on H100s (five models, TP 1 to 4; from
the KV blocks that runs of inference-sim/sim-to-real-accuracy-validation report)."""
GRAPH_BYTES = GIB // 2
"""Estimate, unverified: captured CUDA graphs. vLLM logs their size at start-up."""
COLLECTIVE_BYTES = GIB // 4
"""Estimate, unverified: buffers of NCCL and of the custom allreduce, with tensor parallelism."""

MOST_TOKENS = 10**9
MOST_SEQUENCES = 10**6


@dataclass(frozen=True, slots=True)
class Ledger:
    """What one tensor-parallel rank's card holds, in bytes; whole-model figures are named so.

    `weights_bytes`, `weights_quantized_bytes`, `weights_unquantized_bytes`, `kv_bytes_per_token` and
    `state_bytes_per_sequence` are the whole model's, nothing replicated; `kv_bytes`, `state_bytes`,
    `activation_bytes`, `engine_overhead_bytes`, `total_bytes` and everything `_per_rank` are one rank's.
    """

    model: str
    card: str
    weights: str
    kv: str
    context_tokens: int
    concurrency: int
    tensor_parallel: int
    pipeline_parallel: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float
    parameters: int
    weights_bytes: int
    weights_quantized_bytes: int
    weights_unquantized_bytes: int
    weights_bytes_per_rank: int
    kv_bytes_per_token: int
    kv_bytes_per_token_per_rank: int
    kv_heads_per_rank: int
    kv_copies: int
    kv_bytes: int
    state_bytes_per_sequence: int
    state_bytes_per_sequence_per_rank: int
    state_bytes: int
    activation_bytes: int
    engine_overhead_bytes: int
    total_bytes: int
    memory_bytes: int
    usable_bytes: int
    headroom_bytes: int
    fits: bool
    max_kv_tokens: int
    max_concurrency: int
    notes: tuple[str, ...]
    unverified: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as `--json` prints them."""
        return asdict(self)


def ledger(
    model: Model | str,
    card: Card | str,
    *,
    weights: str = "bf16",
    kv: str = "bf16",
    context: int,
    concurrency: int,
    tp: int = 1,
    pp: int = 1,
    max_num_batched_tokens: int = 2048,
    gpu_memory_utilization: float = 0.9,
    memory_gb: float | None = None,
) -> Ledger:
    """The ledger of `concurrency` sequences of `context` tokens each, on the fullest of `tp` × `pp` ranks.

    total = weights + KV + state + activations + engine; it fits where that is at most the card's memory times
    `gpu_memory_utilization` (vLLM's meaning). The memory is the datasheet's, GB of 10^9 bytes, unless
    `memory_gb` says what the driver reports, which on many cards is more (an H100's 80 GB are 85.5).
    `max_kv_tokens` is what the rest would hold as KV, shared by all sequences. Activations and engine
    are estimates; all else is exact for the architecture.
    Raises KilocardError on an unknown name, a number out of range, or a TP the model cannot be cut into.
    """
    model, card = facts.model(model), facts.card(card)
    weight, cache = weight_dtype(weights), kv_dtype(kv)
    context = check_count("context", context, MOST_TOKENS, "tokens")
    concurrency = check_count("concurrency", concurrency, MOST_SEQUENCES, "sequences")
    max_num_batched_tokens = check_count("max-num-batched-tokens", max_num_batched_tokens, 10**7, "tokens")
    if not 0 < gpu_memory_utilization <= 1:
        raise KilocardError(
            f"--gpu-memory-utilization {gpu_memory_utilization} is not over 0 and up to 1; vLLM's own is 0.9"
        )
    tp = check_tensor_parallel(model, tp)
    if memory_gb is not None and not 0 < memory_gb < 1e6:
        raise KilocardError(f"--memory-gb {memory_gb}: give the card's memory in GB of 10^9 bytes, as 80")
    memory = card.memory_bytes if memory_gb is None else round(memory_gb * 1e9)

    stages = stage_layers(model.layers, pp)
    on_rank = weights_bytes(model, weight, tp, stages)
    kv_per_token = _on_fullest(model.kv_bytes_per_token(cache, tp), stages)
    state_per_sequence = _on_fullest(model.state_bytes_per_sequence(tp), stages)
    activations = activation_bytes(model, max_num_batched_tokens, concurrency, tp)
    engine = CONTEXT_BYTES + GRAPH_BYTES + (COLLECTIVE_BYTES if tp * pp > 1 else 0)
    kv_bytes, state_bytes = concurrency * context * kv_per_token, concurrency * state_per_sequence
    total = on_rank + kv_bytes + state_bytes + activations + engine
    usable = int(memory * gpu_memory_utilization)
    if usable < LEAST_USABLE_BYTES:
        raise KilocardError(
            f"--gpu-memory-utilization {gpu_memory_utilization:g} of {memory / 1e9:g} GB are {usable} bytes: "
            f"give an engine {LEAST_USABLE_BYTES} or more"
        )
    left = usable - on_rank - activations - engine
    quantized = _quantized_bytes(model, weight)
    whole = weights_bytes(model, weight)
    return Ledger(
        model=model.id,
        card=card.id,
        weights=weight.value,
        kv=cache.value,
        context_tokens=context,
        concurrency=concurrency,
        tensor_parallel=tp,
        pipeline_parallel=pp,
        max_num_batched_tokens=max_num_batched_tokens,
        gpu_memory_utilization=gpu_memory_utilization,
        parameters=parameters(model),
        weights_bytes=whole,
        weights_quantized_bytes=quantized,
        weights_unquantized_bytes=whole - quantized,
        weights_bytes_per_rank=on_rank,
        kv_bytes_per_token=model.kv_bytes_per_token(cache),
        kv_bytes_per_token_per_rank=kv_per_token,
        kv_heads_per_rank=1 if model.mla else model.kv_heads_on_rank(tp),
        kv_copies=tp if model.mla else max(1, tp // model.kv_heads),
        kv_bytes=kv_bytes,
        state_bytes_per_sequence=model.state_bytes_per_sequence(),
        state_bytes_per_sequence_per_rank=state_per_sequence,
        state_bytes=state_bytes,
        activation_bytes=activations,
        engine_overhead_bytes=engine,
        total_bytes=total,
        memory_bytes=memory,
        usable_bytes=usable,
        headroom_bytes=usable - total,
        fits=total <= usable,
        max_kv_tokens=max(0, (left - state_bytes) // kv_per_token),
        max_concurrency=max(0, left // (context * kv_per_token + state_per_sequence)),
        notes=_notes(model, weight, context, tp),
        unverified=unverified(model, card, *([] if memory_gb else ["memory_gb"])),
    )


def _on_fullest(size_bytes: int, stages: Sequence[int]) -> int:
    """What the stage with the most layers keeps of it."""
    return -(-size_bytes * max(stages) // sum(stages))


def activation_bytes(model: Model, tokens: int, sequences: int, tp: int = 1) -> int:
    """Peak of a step's temporary tensors on one rank, in bytes: an estimate, not a measurement.

    The residual and the normed input (tokens x hidden, twice) stand beside the widest layer: of attention
    its queries, keys, values and output; of an MLP the gate, up and product columns; of experts those for
    each token's choices, and what they hand back. At the end the logits of the sequences that sample take
    their place. All in 16 bit but the logits.
    """
    inputs = 2 * model.hidden_size
    forward = tokens * (inputs + max(_attention_width(model, tp), _mlp_width(model, tp))) * ACTIVATION_BYTES
    logits = min(tokens, sequences) * model.vocab_size * LOGITS_BYTES_PER_ENTRY
    return max(forward, tokens * inputs * ACTIVATION_BYTES + logits)


def _attention_width(model: Model, tp: int) -> int:
    if model.mla:
        per_head = 2 * (model.mla.qk_nope_head_dim + model.mla.qk_rope_head_dim) + 2 * model.mla.v_head_dim
        return model.attention_heads * per_head // tp + model.mla.latent_size + (model.mla.q_lora_rank or 0)
    queries = model.attention_heads * model.head_dim * (3 if model.attention_output_gate else 2)
    width = queries // tp + 2 * model.kv_heads_on_rank(tp) * model.head_dim
    linear = model.linear_attention
    return max(width, (2 * linear.conv_channels + 2 * linear.value_size) // tp) if linear else width


def _mlp_width(model: Model, tp: int) -> int:
    dense = 3 * model.intermediate_size // tp
    if not model.moe:
        return dense
    columns = 3 * model.moe.expert_intermediate_size // tp + model.hidden_size
    shared = 3 * model.moe.shared_intermediate_size // tp
    return max(dense, model.moe.experts_per_token * columns + shared)


def _quantized_bytes(model: Model, weights: WeightDtype) -> int:
    if not weights.quantized:
        return 0
    return sum(part.bytes(weights) for part in parts(model) if part.role.quantizable)


def _notes(model: Model, weights: WeightDtype, context: int, tp: int) -> tuple[str, ...]:
    notes = ["activations and engine overhead are estimates"]
    if weights.quantized:
        notes.append(
            f"{weights} stores the linear layers only: embeddings, LM head, router and norms stay 16 bit"
        )
    if model.mla:
        notes.append("every rank holds the MLA latent whole: tensor parallelism does not shrink KV")
    elif tp > model.kv_heads:
        notes.append(
            f"TP {tp} exceeds {model.kv_heads} KV heads: each is held by {tp // model.kv_heads} ranks"
        )
    if model.linear_attention:
        notes.append(
            f"hybrid: {model.attention_layers} of {model.layers} layers keep KV, the rest a state a sequence"
        )
    if model.max_context_tokens and context > model.max_context_tokens:
        notes.append(f"context {context} exceeds the model's {model.max_context_tokens}: engines refuse that")
    notes += _block_notes(model, weights, tp)
    return tuple(notes)


def _block_notes(model: Model, weights: WeightDtype, tp: int) -> list[str]:
    widths = [model.moe.expert_intermediate_size] if model.moe else [model.intermediate_size]
    cut = [width // tp for width in widths if (width // tp) % 128]
    if weights not in (WeightDtype.FP8, WeightDtype.INT4) or not cut:
        return []
    return [f"TP {tp} leaves {cut[0]} columns a rank, no multiple of a scale's 128: engines may refuse that"]


def unverified(model: Model, card: Card, *used: str) -> tuple[str, ...]:
    """The facts that a result rests on and no primary source was found for, as `id.field`."""
    of_card = [f"{card.id}.{field}" for field in used if field in card.unverified]
    return tuple(of_card + [f"{model.id}.{field}" for field in model.unverified])


def check_count(option: str, value: SupportsIndex, most: int, unit: str) -> int:
    """The count as an int, refused unless a whole number from 1 to `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if isinstance(value, bool) or not 1 <= number <= most:
        raise KilocardError(f"--{option} {value}: give a whole number of {unit} from 1 to {most}")
    return number
