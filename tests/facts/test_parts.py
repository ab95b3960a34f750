"""Counting weights: against the announced totals, public checkpoints and transformers' own modules."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.dtypes import WeightDtype
from kilocard.facts.parts import active_parameters, parameters, parts, weights_bytes
from kilocard.facts.sharding import check_tensor_parallel, valid_tensor_parallel

MODELS = sorted(facts.models())


@pytest.mark.parametrize("name", MODELS)
def test_the_architecture_adds_up_to_the_published_total(name: str) -> None:
    model = facts.model(name)
    assert model.published_parameters_b
    assert parameters(model) == pytest.approx(model.published_parameters_b * 1e9, rel=0.005)
    if model.published_active_parameters_b:
        assert active_parameters(model) == pytest.approx(model.published_active_parameters_b * 1e9, rel=0.02)


@pytest.mark.parametrize(
    ("name", "weights", "gigabytes"),
    [
        ("qwen3-8b", "int4", 6.1),
        ("qwen3-32b", "int4", 19.3),
        ("qwen3-8b", "fp8", 9.4),
        ("qwen3-8b", "bf16", 16.4),
    ],
)
def test_public_checkpoints_are_as_large(name: str, weights: str, gigabytes: float) -> None:
    """Qwen3-8B-AWQ, Qwen3-32B-AWQ, Qwen3-8B-FP8 and Qwen3-8B, as their repositories list the files."""
    assert weights_bytes(facts.model(name), WeightDtype(weights)) == pytest.approx(gigabytes * 1e9, rel=0.01)


@given(st.sampled_from(MODELS), st.sampled_from(list(WeightDtype)), st.data())
def test_ranks_hold_the_whole_and_never_more_than_it(
    name: str, weights: WeightDtype, data: st.DataObject
) -> None:
    model = facts.model(name)
    tp = data.draw(st.sampled_from(valid_tensor_parallel(model)))
    on_rank, whole = weights_bytes(model, weights, tp), weights_bytes(model, weights)
    assert whole <= on_rank * tp + tp * len(parts(model))
    assert on_rank <= whole
    replicated = sum(part.parameters for part in parts(model) if part.pieces == 1)
    if model.mla is None and tp <= model.kv_heads:
        on_ranks = sum(part.on_rank(tp) for part in parts(model)) * tp
        assert on_ranks - parameters(model) == replicated * (tp - 1)


def test_int4_takes_its_scales_and_zero_points() -> None:
    assert WeightDtype.INT4.linear_bytes(128 * 8, 8) * 8 / (128 * 8) == 4 + (16 + 4) / 128


def test_tensor_parallel_that_no_engine_takes_is_refused() -> None:
    cases = [
        ("smollm2-135m", 2, "9 attention heads"),
        ("smollm2-135m", 9, "1536 columns"),
        ("qwen3-14b", 5, "8 KV heads"),
        ("qwen3.8-27b", 3, "4 KV heads"),
        ("qwen3.8-27b", 12, "16 linear-attention key heads"),
        ("qwen3-8b", 0, "no whole number from 1 to 64"),
        ("qwen3-8b", 10**30, "no whole number from 1 to 64"),
    ]
    for name, tp, reason in cases:
        with pytest.raises(KilocardError, match=rf"--tp {tp}: .*{reason}.*; valid for {name}: 1"):
            check_tensor_parallel(facts.model(name), tp)


COMMON: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}  # fmt: skip
LINEAR = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 32,
    "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "head_dim": 64,
}  # fmt: skip
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
SHARED = {"shared_expert_intermediate_size": 128}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": None},
    "smollm3": {"pad_token_id": 0},
    "qwen2": {},
    "qwen3": {"head_dim": 64, "tie_word_embeddings": True},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": {**EXPERTS, **SHARED},
    "qwen3_moe": {**EXPERTS, "head_dim": 64, "mlp_only_layers": [1]},
    "qwen3_next": {**EXPERTS, **SHARED, **LINEAR},
    "qwen3_5_text": LINEAR,
    "qwen3_5_moe_text": {**EXPERTS, **SHARED, **LINEAR},
    "deepseek_v3": {
        "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "n_shared_experts": 2,
        "first_k_dense_replace": 1, "kv_lora_rank": 64, "q_lora_rank": 96, "qk_rope_head_dim": 16,
        "qk_nope_head_dim": 32, "v_head_dim": 32, "num_key_value_heads": 8, "n_group": 2, "topk_group": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_config_counts_as_transformers_counts_its_modules(kind: str, tmp_path: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    content = {"model_type": kind, **COMMON, **CONFIGS[kind]}
    config = AutoConfig.for_model(**content)
    with torch.device("meta"):
        modules = AutoModelForCausalLM.from_config(config)
    (tmp_path / "config.json").write_text(json.dumps(content))
    built = sum(tensor.numel() for tensor in modules.parameters())
    assert parameters(facts.model(str(tmp_path))) == built
