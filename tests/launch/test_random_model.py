"""The model of random weights is made of the catalogue's sizes and the embedded model's tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kilocard import facts
from kilocard.facts import model
from kilocard.facts.hf_config import model_from_config
from kilocard.facts.parts import parameters
from kilocard.facts.sharding import valid_tensor_parallel
from kilocard.launch import model_files
from kilocard.launch.model_files import is_intact, model_folder
from kilocard.specs.engine import RANDOM_MODEL


@pytest.fixture
def tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An embedded model of which the tokenizer is there."""
    monkeypatch.setenv("KILOCARD_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "embedded"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "model.safetensors"):
        (folder / name).write_text(name)
    monkeypatch.setattr(model_files, "embedded_model", lambda say=None: folder)
    return folder


def test_its_folder_holds_a_configuration_a_tokenizer_and_no_weights(tokenizer: Path) -> None:
    folder = Path(model_folder("Random-Qwen3"))
    assert folder.name == RANDOM_MODEL
    assert sorted(path.name for path in folder.iterdir()) == [
        "SHA256SUMS.json",
        "chat_template.jinja",
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert is_intact(folder)
    assert (folder / "tokenizer.json").read_text() == "tokenizer.json"


def test_its_configuration_is_the_catalogue_s_row(tokenizer: Path) -> None:
    row = model(RANDOM_MODEL)
    read = model_from_config(Path(model_folder(RANDOM_MODEL), "config.json"))
    for name in ("layers", "hidden_size", "intermediate_size", "attention_heads", "kv_heads", "head_dim"):
        assert getattr(read, name) == getattr(row, name)
    assert parameters(read) == parameters(row) == round(row.published_parameters_b * 1e9)  # type: ignore[operator]
    assert row.source.kind is facts.FactKind.DERIVED


def test_its_heads_divide_where_the_embedded_model_s_do_not() -> None:
    assert {2, 4, 8} <= set(valid_tensor_parallel(model(RANDOM_MODEL)))
    assert 2 not in valid_tensor_parallel(model("smollm2-135m"))


def test_it_is_made_once(tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model_folder(RANDOM_MODEL)
    monkeypatch.setattr(model_files, "_make_random", lambda *_: pytest.fail("made twice"))
    assert model_folder(RANDOM_MODEL) == folder


@pytest.mark.parametrize("damage", ["cut", "another size"])
def test_a_damaged_folder_or_one_of_an_older_row_is_made_again(tokenizer: Path, damage: str) -> None:
    folder = Path(model_folder(RANDOM_MODEL))
    config = folder / "config.json"
    good = config.read_text()
    config.write_text(good[:50] if damage == "cut" else good.replace("1024", "2048"))
    assert Path(model_folder(RANDOM_MODEL)) == folder
    assert config.read_text() == good
    assert json.loads(good)["model_type"] == "qwen3"


def test_a_half_made_folder_is_never_used(tokenizer: Path) -> None:
    (tokenizer / "tokenizer_config.json").unlink()
    with pytest.raises(model_files.KilocardError, match="cannot prepare the model"):
        model_folder(RANDOM_MODEL)
    cache = model_files.cache_dir()
    assert [path.name for path in cache.iterdir()] == [f"{RANDOM_MODEL}.lock"]
