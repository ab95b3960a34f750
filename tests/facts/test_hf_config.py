"""Local configurations: read as the engine would, or refused in one line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.dtypes import KvDtype
from kilocard.facts.parts import parameters
from kilocard.memory import ledger
from kilocard.roofline import roofline

QWEN3 = {
    "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "sliding_window": None, "use_sliding_window": False, "max_position_embeddings": 40960,
}  # fmt: skip
QWEN3_5 = {
    "model_type": "qwen3_5",
    "tie_word_embeddings": False,
    "vision_config": {"depth": 27},
    "text_config": {
        "model_type": "qwen3_5_text", "hidden_size": 5120, "intermediate_size": 17408,
        "num_hidden_layers": 64,
        "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 248320,
        "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 48,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "attn_output_gate": True, "mamba_ssm_dtype": "float32", "max_position_embeddings": 262144,
    },
}  # fmt: skip
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
    "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3, "moe_layer_freq": 1,
}  # fmt: skip
QWEN3_MOE = {
    **QWEN3, "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "intermediate_size": 6144,
}  # fmt: skip


def write(folder: Path, config: object) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (QWEN3, "qwen3-8b"),
        (QWEN3_MOE, "qwen3-30b-a3b"),
        (QWEN3_5, "qwen3.5-27b"),
        (DEEPSEEK_V3, "deepseek-v3"),
    ],
)
def test_a_published_config_gives_the_catalogue_s_model(
    config: dict[str, Any], name: str, tmp_path: Path
) -> None:
    read, row = facts.model(write(tmp_path, config)), facts.model(name)
    assert parameters(read) == parameters(row)
    assert read.kv_bytes_per_token(KvDtype.BF16, 8) == row.kv_bytes_per_token(KvDtype.BF16, 8)
    assert read.state_bytes_per_sequence() == row.state_bytes_per_sequence()
    mine = ledger(read, "h200-sxm", context=4096, concurrency=8, tp=8)
    assert mine.total_bytes == ledger(name, "h200-sxm", context=4096, concurrency=8, tp=8).total_bytes
    fast = roofline(read, "h200-sxm", batch=8, context=4096, tp=8)
    assert fast.decode_step_s == roofline(name, "h200-sxm", batch=8, context=4096, tp=8).decode_step_s


def test_file_and_folder_are_both_taken(tmp_path: Path) -> None:
    folder = write(tmp_path, QWEN3)
    assert facts.model(folder) == facts.model(f"{folder}/config.json")


def test_layer_types_count_the_layers_that_keep_kv(tmp_path: Path) -> None:
    types = ["linear_attention", "full_attention"] * 32
    config = {**QWEN3_5, "text_config": {**QWEN3_5["text_config"], "layer_types": types}}  # type: ignore[dict-item]
    assert facts.model(write(tmp_path, config)).attention_layers == 32


def test_state_in_16_bit_is_half(tmp_path: Path) -> None:
    text = {**QWEN3_5["text_config"], "mamba_ssm_dtype": "bfloat16"}  # type: ignore[dict-item]
    model = facts.model(write(tmp_path, {**QWEN3_5, "text_config": text}))
    window = 48 * 10240 * 3 * 2
    whole = facts.model("qwen3.5-27b").state_bytes_per_sequence() - window
    assert model.state_bytes_per_sequence() - window == whole // 2


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"model_type": "gpt_neox"}, "model_type 'gpt_neox' is not supported"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"num_hidden_layers": "36"}, "num_hidden_layers is '36', not a whole number"),
        ({"num_hidden_layers": 0}, "a size is 0"),
        ({"num_attention_heads": 0}, "a size is 0"),
        ({"vocab_size": 10**12}, "a size is 1000000000000"),
        ({"num_key_value_heads": 5}, "5 KV heads do not divide 32"),
        (
            {"model_type": "mistral", "sliding_window": 4096, "use_sliding_window": True},
            "sliding_window 4096",
        ),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types sliding_attention"),
        ({"model_type": "deepseek_v3"}, "kv_lora_rank is missing"),
        ({"model_type": "qwen3_5_text"}, "linear_num_key_heads is missing"),
        ({"text_config": {"hidden_size": -1}}, "hidden_size is '-1'"),
        ({"text_config": 5}, "text_config is '5', not an object"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000; at most 10,000"),
        ({**QWEN3_MOE, "num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"model_type": ["qwen3"]}, "model_type is .*not a text"),
        ({"_name_or_path": {}}, "_name_or_path is '{}'"),
        ({"layer_types": 5}, "layer_types is '5', not a list of str"),
        ({"layer_types": [["full_attention"]]}, "layer_types is .*not a list of str"),
        ({**QWEN3_MOE, "mlp_only_layers": [[1]]}, "mlp_only_layers is .*not a list of int"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings is 'false', not true or false"),
        ({"attention_bias": 1}, "attention_bias is '1'"),
        ({"hidden_size": float("nan")}, "hidden_size is 'nan'"),
        ({**QWEN3_5["text_config"], "mamba_ssm_dtype": "int1"}, "mamba_ssm_dtype 'int1': known"),  # type: ignore[dict-item]
    ],
)
def test_what_it_cannot_count_it_refuses(change: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    folder = write(tmp_path, {**QWEN3, **change})
    with pytest.raises(KilocardError, match=complaint) as caught:
        facts.model(folder)
    assert f"{folder}/config.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["{", "[1, 2]", '"text"', "\x00\xff", '{"a":' * 100_000])
def test_a_file_that_is_no_config_is_named(content: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(content, encoding="latin-1")
    with pytest.raises(KilocardError, match=r"config\.json"):
        facts.model(str(file))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KilocardError, match=r"no model at .*config\.json: name a Hugging Face config.json"):
        facts.model(str(tmp_path))


def test_what_may_never_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "config.json").mkdir()
    for name in ("/dev/zero", str(tmp_path / "pipe.json"), str(tmp_path)):
        with pytest.raises(KilocardError, match="no regular file"):
            facts.model(name)


def test_a_file_too_large_for_a_configuration_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(10**10)
    with pytest.raises(KilocardError, match=r"10,000,000,000 bytes, more than"):
        facts.model(str(tmp_path))


@pytest.mark.parametrize("name", ["/" + "a" * 300, "./" + "a" * 300, "~nosuchuser/config.json"])
def test_a_name_that_no_file_can_have_is_one_line(name: str) -> None:
    with pytest.raises(KilocardError, match=r"too long|no home folder"):
        facts.model(name)
