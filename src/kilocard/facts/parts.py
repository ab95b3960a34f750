"""A model's weights, part by part: how many, how tensor parallelism deals them out, what quantisers touch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from kilocard.facts.dtypes import WeightDtype
from kilocard.facts.model import LinearAttention, Mla, Model, Moe


class Role(StrEnum):
    """What a part does in a step; PLAIN is multiplied but never quantised, a VECTOR is not multiplied."""

    EMBEDDING = "embedding"
    HEAD = "head"
    PLAIN = "plain"
    LINEAR = "linear"
    EXPERT = "expert"
    VECTOR = "vector"

    @property
    def quantizable(self) -> bool:
        """GPTQ, AWQ, compressed-tensors and FP8 checkpoints store only linear layers in fewer bits."""
        return self in (Role.LINEAR, Role.EXPERT)

    @property
    def is_an_end(self) -> bool:
        """Whether it stands before the first layer or after the last."""
        return self in (Role.EMBEDDING, Role.HEAD)


@dataclass(frozen=True, slots=True)
class Part:
    """Weights of one role, over all layers.

    `pieces` is how many shares TP can deal out; where TP exceeds them, or there is one, ranks hold copies.
    """

    name: str
    role: Role
    parameters: int
    pieces: int = 1
    outputs: int = 0

    def on_rank(self, tp: int) -> int:
        """Parameters that one rank holds."""
        return self._share(self.parameters, tp)

    def bytes(self, weights: WeightDtype, tp: int = 1) -> int:
        """Bytes on one rank, scales included."""
        if self.role.quantizable:
            return weights.linear_bytes(self.on_rank(tp), self._share(self.outputs, tp))
        return self.on_rank(tp) * weights.unquantized_bytes

    def _share(self, amount: int, tp: int) -> int:
        return amount * -(-self.pieces // tp) // self.pieces


@lru_cache(maxsize=256)
def parts(model: Model) -> tuple[Part, ...]:
    """Every weight of the text model, counted from its architecture (no vision tower, no MTP head)."""
    return tuple(_parts(model))


def parameters(model: Model) -> int:
    """Weights of the whole model."""
    return sum(part.parameters for part in parts(model))


def active_parameters(model: Model) -> int:
    """Weights that one token uses: all but the experts that it is not sent to."""
    share = (model.moe.experts_per_token, model.moe.experts) if model.moe else (1, 1)
    return sum(
        part.parameters * share[0] // share[1] if part.role is Role.EXPERT else part.parameters
        for part in parts(model)
    )


def weights_bytes(model: Model, weights: WeightDtype, tp: int = 1, stages: Sequence[int] = ()) -> int:
    """Bytes of all weights that one of `tp` ranks holds; the whole model at 1.

    Of a pipeline whose `stages` have so many layers, the fullest rank's: the first stage has the
    embedding beside its layers, the last one the LM head.
    """
    layers = sum(part.bytes(weights, tp) for part in parts(model) if not part.role.is_an_end)
    ends = {
        role: sum(part.bytes(weights, tp) for part in parts(model) if part.role is role)
        for role in (Role.EMBEDDING, Role.HEAD)
    }
    if len(stages) < 2:
        return layers + sum(ends.values())
    first = ends[Role.HEAD] if model.tied_embeddings else ends[Role.EMBEDDING]
    beside = [first, *[0] * (len(stages) - 2), ends[Role.HEAD]]
    return max(layers * count // model.layers + more for count, more in zip(stages, beside, strict=True))


def _parts(model: Model) -> Iterator[Part]:
    hidden, layers = model.hidden_size, model.layers
    if not model.tied_embeddings:
        yield Part("embedding", Role.EMBEDDING, model.vocab_size * hidden, model.vocab_size)
    yield Part("lm_head", Role.HEAD, model.vocab_size * hidden, model.vocab_size)
    yield Part("norms", Role.VECTOR, (2 * layers + 1) * hidden)
    yield from _mla_parts(model, model.mla) if model.mla else _attention_parts(model)
    if model.linear_attention:
        yield from _linear_attention_parts(model, model.linear_attention)
    if model.dense_layers:
        yield from _mlp_parts("mlp", model.dense_layers, hidden, model.intermediate_size, model.mlp_gate)
    if model.moe:
        yield from _moe_parts(hidden, model.moe)


def _linear(name: str, layers: int, inputs: int, outputs: int, pieces: int = 1) -> Part:
    return Part(name, Role.LINEAR, layers * inputs * outputs, pieces, layers * outputs)


def _attention_parts(model: Model) -> Iterator[Part]:
    layers, hidden, heads = model.attention_layers, model.hidden_size, model.attention_heads
    queries, keys = heads * model.head_dim, model.kv_heads * model.head_dim
    yield _linear("q_proj", layers, hidden, queries * (2 if model.attention_output_gate else 1), heads)
    yield _linear("kv_proj", layers, hidden, 2 * keys, model.kv_heads)
    yield _linear("o_proj", layers, queries, hidden, heads)
    if model.qk_norm:
        yield Part("qk_norm", Role.VECTOR, layers * 2 * model.head_dim)
    if model.attention_bias:
        yield Part("q_bias", Role.VECTOR, layers * queries, heads)
        yield Part("kv_bias", Role.VECTOR, layers * 2 * keys, model.kv_heads)


def _mla_parts(model: Model, mla: Mla) -> Iterator[Part]:
    layers, hidden, heads = model.attention_layers, model.hidden_size, model.attention_heads
    query_size = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
    if mla.q_lora_rank:
        yield _linear("q_a_proj", layers, hidden, mla.q_lora_rank)
    yield _linear("q_b_proj", layers, mla.q_lora_rank or hidden, query_size, heads)
    yield _linear("kv_a_proj", layers, hidden, mla.latent_size)
    yield _linear(
        "kv_b_proj", layers, mla.kv_lora_rank, heads * (mla.qk_nope_head_dim + mla.v_head_dim), heads
    )
    yield _linear("o_proj", layers, heads * mla.v_head_dim, hidden, heads)
    yield Part("latent_norms", Role.VECTOR, layers * ((mla.q_lora_rank or 0) + mla.kv_lora_rank))


def _linear_attention_parts(model: Model, linear: LinearAttention) -> Iterator[Part]:
    layers, hidden, heads = linear.layers, model.hidden_size, linear.value_heads
    yield _linear("in_proj_qkv", layers, hidden, linear.conv_channels, linear.key_heads)
    yield _linear("in_proj_z", layers, hidden, linear.value_size, heads)
    # Too narrow to be worth quantising: checkpoints keep the gates' projection in 16 bit.
    yield Part("in_proj_ba", Role.PLAIN, layers * hidden * 2 * heads, heads)
    yield _linear("linear_out_proj", layers, linear.value_size, hidden, heads)
    yield Part("conv1d", Role.VECTOR, layers * linear.conv_channels * linear.conv_kernel, linear.key_heads)
    yield Part("decay", Role.VECTOR, layers * 2 * heads, heads)
    yield Part("linear_norm", Role.VECTOR, layers * linear.value_head_dim)


def _mlp_parts(name: str, layers: int, hidden: int, intermediate: int, gate: bool = True) -> Iterator[Part]:
    columns = 2 * intermediate if gate else intermediate
    yield _linear(f"{name}_gate_up" if gate else f"{name}_up", layers, hidden, columns, intermediate)
    yield _linear(f"{name}_down", layers, intermediate, hidden, intermediate)


def _moe_parts(hidden: int, moe: Moe) -> Iterator[Part]:
    size, count = moe.expert_intermediate_size, moe.layers * moe.experts
    yield Part("router", Role.PLAIN, count * hidden)
    yield Part("experts", Role.EXPERT, 3 * count * hidden * size, size, count * (2 * size + hidden))
    if moe.shared_intermediate_size:
        yield from _mlp_parts("shared", moe.layers, hidden, moe.shared_intermediate_size)
    if moe.shared_gate:
        yield Part("shared_gate", Role.PLAIN, moe.layers * hidden)
