"""A model from a local Hugging Face `config.json`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from kilocard.errors import KilocardError, near_match
from kilocard.facts.config_values import (
    Config,
    first_size_of,
    flag_of,
    layers_of,
    list_of,
    shown,
    size_of,
    state_bytes_of,
    text_of,
)
from kilocard.facts.files import is_folder, read_text, user_path
from kilocard.facts.model import LinearAttention, Mla, Model, Moe
from kilocard.facts.source import FactKind, Source

QK_NORM = {"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"}
HYBRID = {"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"}
BIASED = {"qwen2", "qwen2_moe"}
MLA_TYPES = {"deepseek_v2", "deepseek_v3", "kimi_k2"}
PLAIN_TYPES = {"llama", "mistral", "mixtral", "smollm3"}
MODEL_TYPES = QK_NORM | BIASED | MLA_TYPES | PLAIN_TYPES
ALIASES = {
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen2_5_vl_text": "qwen2",
}
WAY_OUT = "write the model as a row in a YAML file and name that with --facts or KILOCARD_FACTS"


def model_from_config(path: Path) -> Model:
    """The model that a `config.json` (or the folder that holds it) describes.

    Dense GQA, mixture of experts (Qwen, Mixtral, DeepSeek), multi-head latent attention, and hybrids with
    gated delta-net layers. Anything else is refused rather than counted wrongly.
    """
    path = user_path(path)
    file = path / "config.json" if is_folder(path) else path
    config = _read(file)
    try:
        return _model(file, {**config, **_text_config(config)}, vision="vision_config" in config)
    except KilocardError as error:
        raise KilocardError(f"{file}: {error}") from error


def _read(file: Path) -> Config:
    try:
        config = json.loads(read_text(file))
    except FileNotFoundError:
        raise KilocardError(
            f"no model at {file}: name a Hugging Face config.json, or the folder of one"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        nested = "it is nested too deeply" if isinstance(error, RecursionError) else None
        reason = nested or getattr(error, "strerror", None) or error
        raise KilocardError(f"cannot read {file}: {reason}; name a Hugging Face config.json") from error
    if not isinstance(config, dict):
        raise KilocardError(
            f"{file} is no Hugging Face config: it holds a {type(config).__name__}, not an object"
        )
    return config


def _text_config(config: Config) -> Config:
    text = config.get("text_config") or {}
    if not isinstance(text, dict):
        raise KilocardError(f"text_config is {shown(text)}, not an object")
    return text


def _model(file: Path, config: Config, vision: bool) -> Model:
    kind = _checked_type(config)
    heads = size_of(config, "num_attention_heads")
    hidden = size_of(config, "hidden_size")
    linear = _linear_attention(config, kind)
    moe = _moe(config, kind)
    layers = layers_of(config)
    return Model(
        id=file.parent.name or file.stem,
        name=text_of(config, "_name_or_path") or file.parent.name or str(file),
        layers=layers,
        hidden_size=hidden,
        intermediate_size=0 if moe and moe.layers == layers else size_of(config, "intermediate_size"),
        attention_heads=heads,
        kv_heads=size_of(config, "num_key_value_heads", default=heads),
        head_dim=size_of(config, "head_dim", default=max(1, hidden // max(1, heads))),
        vocab_size=size_of(config, "vocab_size"),
        tied_embeddings=flag_of(config, "tie_word_embeddings", default=False),
        qk_norm=kind in QK_NORM,
        attention_bias=flag_of(config, "attention_bias", default=kind in BIASED),
        attention_output_gate=flag_of(config, "attn_output_gate", default=kind in HYBRID),
        max_context_tokens=size_of(config, "max_position_embeddings", default=0) or None,
        moe=moe,
        mla=_mla(config, kind),
        linear_attention=linear,
        notes="text model only: the vision tower's weights are left out" if vision else "",
        source=_source(file),
    )


def _source(file: Path) -> Source:
    written = datetime.fromtimestamp(file.stat().st_mtime, tz=UTC).date().isoformat()
    return Source(citation=f"local configuration {file}", date=written, kind=FactKind.PUBLISHED)


def _checked_type(config: Config) -> str:
    kind = text_of(config, "model_type") or _guessed_type(config)
    kind = ALIASES.get(kind, kind)
    if kind not in MODEL_TYPES:
        raise KilocardError(
            f"model_type {kind!r} is not supported ({near_match(kind, MODEL_TYPES)}); {WAY_OUT}"
        )
    window = config.get("sliding_window")
    if window and config.get("use_sliding_window", kind in PLAIN_TYPES):
        raise KilocardError(
            f"sliding_window {str(window)[:40]} is not supported: KV would be counted too high; {WAY_OUT}"
        )
    kinds = set(list_of(config, "layer_types", str)) - {"full_attention", "linear_attention"}
    if kinds:
        raise KilocardError(f"layer_types {', '.join(sorted(kinds))[:80]} not supported; {WAY_OUT}")
    return kind


def _guessed_type(config: Config) -> str:
    if "kv_lora_rank" in config:
        return "deepseek_v3"
    if "linear_num_value_heads" in config:
        return "qwen3_next"
    return "llama"


def _mla(config: Config, kind: str) -> Mla | None:
    if kind not in MLA_TYPES:
        return None
    return Mla(
        kv_lora_rank=size_of(config, "kv_lora_rank"),
        qk_rope_head_dim=size_of(config, "qk_rope_head_dim"),
        qk_nope_head_dim=size_of(config, "qk_nope_head_dim"),
        v_head_dim=size_of(config, "v_head_dim"),
        q_lora_rank=size_of(config, "q_lora_rank", default=0) or None,
    )


def _linear_attention(config: Config, kind: str) -> LinearAttention | None:
    if kind not in HYBRID:
        return None
    layers = layers_of(config)
    types = list_of(config, "layer_types", str)
    if not types:
        linear_layers = layers - layers // max(1, size_of(config, "full_attention_interval", default=4))
    elif len(types) != layers:
        raise KilocardError(f"layer_types does not name each of the {layers} layers; {WAY_OUT}")
    else:
        linear_layers = types.count("linear_attention")
    if not linear_layers:
        return None
    return LinearAttention(
        layers=linear_layers,
        key_heads=size_of(config, "linear_num_key_heads"),
        value_heads=size_of(config, "linear_num_value_heads"),
        key_head_dim=size_of(config, "linear_key_head_dim"),
        value_head_dim=size_of(config, "linear_value_head_dim"),
        conv_kernel=size_of(config, "linear_conv_kernel_dim"),
        state_bytes_per_element=state_bytes_of(config),
    )


def _moe(config: Config, kind: str) -> Moe | None:
    experts = first_size_of(config, "n_routed_experts", "num_experts", "num_local_experts")
    if not experts:
        return None
    size = config.get("moe_intermediate_size") or config.get("intermediate_size")
    shared = size_of(config, "shared_expert_intermediate_size", default=0)
    if kind in MLA_TYPES:
        shared = size_of(config, "n_shared_experts", default=0) * size_of(config, "moe_intermediate_size")
    return Moe(
        layers=_moe_layers(config, kind),
        experts=experts,
        experts_per_token=size_of(config, "num_experts_per_tok"),
        expert_intermediate_size=size_of({"moe_intermediate_size": size}, "moe_intermediate_size"),
        shared_intermediate_size=shared,
        shared_gate=bool(shared) and kind not in MLA_TYPES,
    )


def _moe_layers(config: Config, kind: str) -> int:
    layers = layers_of(config)
    if kind in MLA_TYPES:
        first = size_of(config, "first_k_dense_replace", default=0)
        step = max(1, size_of(config, "moe_layer_freq", default=1))
        return sum(1 for layer in range(layers) if layer >= first and layer % step == 0)
    step = max(1, size_of(config, "decoder_sparse_step", default=1))
    dense = set(list_of(config, "mlp_only_layers", int))
    return sum(1 for layer in range(layers) if layer not in dense and (layer + 1) % step == 0)
