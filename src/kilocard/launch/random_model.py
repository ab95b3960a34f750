"""A model whose heads can be shared out among cards: Qwen3's architecture, small, its weights random.

Nine heads, as the embedded model has, divide among no two ranks. These divide among 2, 4 and 8. There is no
file of weights: vLLM draws them (`--load-format dummy`). Its times are those of its size,
its answers are noise.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from kilocard.facts import Model, model
from kilocard.specs.engine import RANDOM_MODEL

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
CHAT_TEMPLATE = "chat_template.jinja"
"""The tokenizer's; older converters keep it inside of its configuration."""
CONFIG = "config.json"


def write(folder: Path, tokenizer: Path) -> None:
    """Make the folder: the configuration, and the tokenizer of the model in the other one."""
    folder.mkdir()
    for name in TOKENIZER_FILES:
        shutil.copyfile(tokenizer / name, folder / name)
    if (tokenizer / CHAT_TEMPLATE).is_file():
        shutil.copyfile(tokenizer / CHAT_TEMPLATE, folder / CHAT_TEMPLATE)
    (folder / CONFIG).write_text(_text_of_config())


def is_current(folder: Path) -> bool:
    """Whether its configuration is that of the catalogue's row as it stands."""
    try:
        return (folder / CONFIG).read_text() == _text_of_config()
    except (OSError, ValueError):
        return False


def config_of(sizes: Model) -> dict[str, Any]:
    """A Qwen3 of these sizes in Hugging Face's words, with SmolLM2's special tokens."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": sizes.vocab_size,
        "hidden_size": sizes.hidden_size,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.attention_heads,
        "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.head_dim,
        "intermediate_size": sizes.intermediate_size,
        "max_position_embeddings": sizes.max_context_tokens,
        "tie_word_embeddings": sizes.tied_embeddings,
        "attention_bias": sizes.attention_bias,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "initializer_range": 0.02,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "torch_dtype": "bfloat16",
        "use_cache": True,
    }


def _text_of_config() -> str:
    return json.dumps(config_of(model(RANDOM_MODEL)), indent=1)
