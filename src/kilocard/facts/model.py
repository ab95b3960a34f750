"""A decoder-only language model: the numbers that memory and time follow from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from kilocard.errors import KilocardError
from kilocard.facts.dtypes import KvDtype
from kilocard.facts.limits import LARGEST, MOST_LAYERS, Flag, Layers, Rate, Size, SizeOrZero
from kilocard.facts.source import STRICT_ROW, Source


@dataclass(frozen=True, slots=True)
class Moe:
    """Mixture-of-experts layers: a token goes to `experts_per_token` of `experts` and to the shared part."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_ROW

    layers: Layers
    experts: Size
    experts_per_token: Size
    expert_intermediate_size: Size
    shared_intermediate_size: SizeOrZero = 0
    shared_gate: Flag = False


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention: a token leaves one latent and one rotary key a layer, for all heads."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_ROW

    kv_lora_rank: Size
    qk_rope_head_dim: Size
    qk_nope_head_dim: Size
    v_head_dim: Size
    q_lora_rank: Size | None = None

    @property
    def latent_size(self) -> int:
        """Elements that a token leaves in the cache of one layer."""
        return self.kv_lora_rank + self.qk_rope_head_dim


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """Gated delta-net layers: no KV, a matrix of state a value head and a short convolution's window."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_ROW

    layers: Layers
    key_heads: Size
    value_heads: Size
    key_head_dim: Size
    value_head_dim: Size
    conv_kernel: Size
    state_bytes_per_element: Size = 4

    @property
    def key_size(self) -> int:
        """Elements of all key heads."""
        return self.key_heads * self.key_head_dim

    @property
    def value_size(self) -> int:
        """Elements of all value heads."""
        return self.value_heads * self.value_head_dim

    @property
    def conv_channels(self) -> int:
        """Channels of the convolution over queries, keys and values."""
        return 2 * self.key_size + self.value_size

    @property
    def state_bytes(self) -> int:
        """Bytes of state a sequence and layer: recurrent matrices (FP32 by default) and a 16-bit window."""
        recurrent = self.value_heads * self.key_head_dim * self.value_head_dim * self.state_bytes_per_element
        return recurrent + self.conv_channels * (self.conv_kernel - 1) * 2


@dataclass(frozen=True, slots=True)
class Model:
    """A model's architecture, in elements; `intermediate_size` is the dense MLPs', 0 where all are MoE."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_ROW

    id: str
    name: str
    layers: Layers
    hidden_size: Size
    intermediate_size: SizeOrZero
    attention_heads: Size
    kv_heads: Size
    head_dim: Size
    vocab_size: Size
    source: Source
    huggingface_id: str = ""
    tied_embeddings: Flag = False
    qk_norm: Flag = False
    attention_bias: Flag = False
    attention_output_gate: Flag = False
    mlp_gate: Flag = True
    max_context_tokens: Size | None = None
    published_parameters_b: Rate | None = None
    published_active_parameters_b: Rate | None = None
    moe: Moe | None = None
    mla: Mla | None = None
    linear_attention: LinearAttention | None = None
    notes: str = ""
    unverified: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = [
            self.layers,
            self.hidden_size,
            self.attention_heads,
            self.kv_heads,
            self.head_dim,
            self.vocab_size,
        ]
        for part in (self.moe, self.mla, self.linear_attention):
            sizes += [getattr(part, name) for name in part.__slots__ if name in _POSITIVE] if part else []
        if min(sizes) < 1 or self.intermediate_size < 0:
            raise KilocardError(
                f"model {self.id}: a size is {min(*sizes, self.intermediate_size)}; sizes start at 1"
            )
        if max(*sizes, self.intermediate_size) > LARGEST:
            widest = max(*sizes, self.intermediate_size)
            raise KilocardError(f"model {self.id}: a size is {widest}; no layer is wider than 10^9")
        if self.layers > MOST_LAYERS:
            raise KilocardError(f"model {self.id}: {self.layers} layers; at most {MOST_LAYERS:,} are counted")
        if not self.mla and self.attention_heads % self.kv_heads:
            raise KilocardError(
                f"model {self.id}: {self.kv_heads} KV heads do not divide {self.attention_heads} query heads"
            )
        if self.moe and (self.moe.layers > self.layers or self.moe.experts_per_token > self.moe.experts):
            raise KilocardError(
                f"model {self.id}: more MoE layers than layers, or more experts used than there are"
            )
        if self.dense_layers and not self.intermediate_size:
            raise KilocardError(
                f"model {self.id}: {self.dense_layers} dense layers need an intermediate_size"
            )
        if self.attention_layers < 1:
            raise KilocardError(
                f"model {self.id}: no layer with full attention; recurrent models are not supported"
            )

    @property
    def attention_layers(self) -> int:
        """Layers that keep KV."""
        return self.layers - (self.linear_attention.layers if self.linear_attention else 0)

    @property
    def dense_layers(self) -> int:
        """Layers whose MLP is dense."""
        return self.layers - (self.moe.layers if self.moe else 0)

    def kv_heads_on_rank(self, tp: int) -> int:
        """KV heads that one tensor-parallel rank holds: at least one, replicated once TP exceeds them."""
        return max(1, self.kv_heads // tp)

    def kv_bytes_per_token(self, kv: KvDtype, tp: int | None = None) -> int:
        """Bytes a token leaves in the cache: of the whole model, or of one of `tp` ranks.

        2 x layers x KV heads x head size x bytes; for MLA layers x (latent + rotary key) x bytes, which
        every rank holds whole.
        """
        if self.mla:
            return self.attention_layers * self.mla.latent_size * kv.bytes
        heads = self.kv_heads if tp is None else self.kv_heads_on_rank(tp)
        return 2 * self.attention_layers * heads * self.head_dim * kv.bytes

    def state_bytes_per_sequence(self, tp: int = 1) -> int:
        """Bytes of recurrent state that a running sequence holds on one rank, whatever its length."""
        return (
            self.linear_attention.layers * self.linear_attention.state_bytes // tp
            if self.linear_attention
            else 0
        )


_POSITIVE = {
    "layers", "experts", "experts_per_token", "expert_intermediate_size", "kv_lora_rank",
    "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "key_heads", "value_heads", "key_head_dim",
    "value_head_dim", "conv_kernel", "state_bytes_per_element",
}  # fmt: skip
