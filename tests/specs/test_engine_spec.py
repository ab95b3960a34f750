"""An engine's spec is checked when it is made."""

import pytest
from pydantic import ValidationError

from kilocard.specs import EngineSpec


@pytest.mark.parametrize(
    "bad",
    [
        {"max_num_seqs": 0},
        {"tensor_parallel_size": -1},
        {"gpu_memory_utilization": 1.5},
        {"model": ""},
        {"max_num_seq": 8},
    ],
)
def test_bad_values_and_misspelt_names_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EngineSpec.model_validate(bad)


def test_names_of_the_embedded_model_are_one() -> None:
    assert EngineSpec(model="smollm2") == EngineSpec() == EngineSpec(model="SmolLM2-135M-Instruct")


def test_names_of_the_random_model_are_one() -> None:
    random = EngineSpec(model="Random-Qwen3")
    assert random == EngineSpec(model="random-qwen3-200m")
    assert random.is_random and random.is_embedded
    assert EngineSpec().is_embedded and not EngineSpec().is_random
    assert not EngineSpec(model="Qwen/Qwen3-8B").is_embedded


def test_settings_name_what_differs_from_the_defaults() -> None:
    assert EngineSpec(max_num_seqs=8, served_model_name="x").settings() == {"max_num_seqs": 8}
    assert EngineSpec().settings() == {}


def test_the_layout_names_what_is_split() -> None:
    assert EngineSpec().layout == "TP 1"
    spec = EngineSpec(tensor_parallel_size=2, data_parallel_size=4)
    assert spec.layout == "TP 2 x DP 4"
    assert spec.ranks == 8
