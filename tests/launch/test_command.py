"""A spec becomes the right argv and environment, without an engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.launch.command import (
    Build,
    Command,
    Flavour,
    build_command,
    choose_build,
    effective_settings,
    find_preload,
    served_name,
)
from kilocard.launch.place import Place
from kilocard.specs.engine import RANDOM_MODEL, EngineSpec

CPU = Build(Flavour.CPU, "0.32.0", ("/v/lib/libiomp5.so",))
GPU = Build(Flavour.GPU, "0.32.0")


def flags_of(spec: EngineSpec, build: Build = CPU, cores: tuple[int, ...] = (0, 1)) -> str:
    return " ".join(build_command(spec, build, "/models/m", cores, 10.0).on_port(8123))


def test_a_cpu_engine_is_eager_has_its_kv_cache_and_its_port() -> None:
    argv = flags_of(EngineSpec(max_model_len=4096, max_num_seqs=32))
    assert "-m vllm.entrypoints.openai.api_server --model /models/m --served-model-name smollm2-135m" in argv
    assert "--enforce-eager --kv-cache-memory-bytes 1073741824 --max-model-len 4096 --max-num-seqs 32" in argv
    assert "--shutdown-timeout 10" in argv
    assert "--enable-prompt-tokens-details" in argv, "else no usage tells the cached tokens"
    assert argv.endswith("--port 8123")


def test_a_gpu_engine_is_left_to_vllms_defaults() -> None:
    command = build_command(EngineSpec(model="Qwen/Qwen3-8B"), GPU, "Qwen/Qwen3-8B", (0, 1), 10.0)
    assert not {"--enforce-eager", "--kv-cache-memory-bytes"} & set(command.argv)
    assert not {"LD_PRELOAD", "HF_HUB_OFFLINE", "OMP_NUM_THREADS"} & set(command.environment)
    assert command.environment["VLLM_NO_USAGE_STATS"] == "1"


def test_a_local_model_needs_no_network() -> None:
    assert build_command(EngineSpec(), CPU, "/models/m", (0, 1), 10.0).environment["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize(
    ("setting", "flag"),
    [
        ({"enable_prefix_caching": False}, "--no-enable-prefix-caching"),
        ({"enforce_eager": False}, "--no-enforce-eager"),
        ({"kv_cache_memory_bytes": 5}, "--kv-cache-memory-bytes 5"),
        ({"kv_cache_dtype": "fp8"}, "--kv-cache-dtype fp8"),
        ({"gpu_memory_utilization": 0.5}, "--gpu-memory-utilization 0.5"),
        ({"extra_args": ["--load-format", "dummy"]}, "--load-format dummy --port"),
    ],
)
def test_settings_become_vllms_flags(setting: dict[str, object], flag: str) -> None:
    assert flag in flags_of(EngineSpec.model_validate(setting))


@given(
    st.sampled_from(["max_num_seqs", "max_model_len", "block_size", "max_num_batched_tokens"]),
    st.integers(1, 9999),
)
def test_every_setting_tells_engines_apart(name: str, value: int) -> None:
    plain = build_command(EngineSpec(), CPU, "/m", (0, 1), 10.0)
    other = build_command(EngineSpec.model_validate({name: value}), CPU, "/m", (0, 1), 10.0)
    assert plain.digest != other.digest


def test_one_rank_on_one_core_needs_no_worker_process() -> None:
    environment = build_command(EngineSpec(), CPU, "/m", (0, 1), 10.0).environment
    assert environment["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["LD_PRELOAD"] == "/v/lib/libiomp5.so"


def test_several_ranks_are_bound_to_their_cores() -> None:
    spec = EngineSpec(model="/m", tensor_parallel_size=2)
    assert build_command(spec, CPU, "/m", (2, 3), 10.0).environment["VLLM_CPU_OMP_THREADS_BIND"] == "2|3"
    assert (
        build_command(spec, CPU, "/m", range(7), 10.0).environment["VLLM_CPU_OMP_THREADS_BIND"]
        == "0,1,2|3,4,5"
    )


def test_an_engine_with_cores_of_its_own_uses_all_of_them_and_no_others() -> None:
    def command(cores: tuple[int, ...], ranks: int = 1) -> Command:
        spec = EngineSpec(model="/m", tensor_parallel_size=ranks)
        return build_command(spec, CPU, "/m", range(8), 10.0, place=Place(cores=cores))

    assert command((5,)).cores == (5,)
    assert command((5,)).environment["OMP_NUM_THREADS"] == "1"
    assert command((5, 6)).environment["VLLM_CPU_OMP_THREADS_BIND"] == "5,6"
    assert command((2, 3), 2).environment["VLLM_CPU_OMP_THREADS_BIND"] == "2|3"
    assert len({command(cores).digest for cores in ((), (4,), (5,))}) == 3
    with pytest.raises(KilocardError, match="2 ranks need 2 cores"):
        command((5,), 2)


def test_an_engine_with_cards_of_its_own_sees_no_others() -> None:
    place = Place(cards=("2", "3"))
    spec = EngineSpec(model="Qwen/Qwen3-8B", tensor_parallel_size=2)
    command = build_command(spec, GPU, "Qwen/Qwen3-8B", (0, 1), 10.0, place=place)
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_stages_are_refused_where_they_fail_and_nowhere_else() -> None:
    spec = EngineSpec(pipeline_parallel_size=2)
    with pytest.raises(
        KilocardError, match=r"pipeline_parallel_size 2 fails .* take tensor_parallel_size or"
    ):
        build_command(spec, CPU, "/m", (0, 1), 10.0)
    assert "--pipeline-parallel-size 2" in flags_of(spec, GPU)
    assert "--data-parallel-size 2" in flags_of(EngineSpec(data_parallel_size=2))


@pytest.mark.parametrize("build", [CPU, GPU])
def test_random_weights_are_drawn_and_not_looked_for(build: Build) -> None:
    assert "--load-format dummy" in flags_of(EngineSpec(model="random-qwen3"), build)
    assert "--load-format" not in flags_of(EngineSpec(), build)
    assert effective_settings(EngineSpec(model=RANDOM_MODEL), build.flavour)["load_format"] == "dummy"


def test_the_build_is_chosen_by_what_is_installed() -> None:
    assert choose_build({"vllm-cpu": "0.32.0", "torch": "2.13.0+cpu"}, has_gpu=True).flavour is Flavour.CPU
    assert choose_build({"vllm": "0.32.0+cpu"}, has_gpu=False).flavour is Flavour.CPU
    assert choose_build({"vllm": "0.32.0", "torch": "2.13.0"}, has_gpu=True).flavour is Flavour.GPU
    with pytest.raises(KilocardError, match="this box shows no GPU"):
        choose_build({"vllm": "0.32.0", "torch": "2.13.0"}, has_gpu=False)
    with pytest.raises(KilocardError, match="has no vllm"):
        choose_build({}, has_gpu=True)


def test_preload_names_only_what_is_there(tmp_path: Path) -> None:
    assert not [name for name in find_preload(tmp_path) if "libiomp5" in name]
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libiomp5.so").touch()
    assert find_preload(tmp_path)[0] == str(tmp_path / "lib" / "libiomp5.so")


def test_requests_use_a_short_name() -> None:
    assert served_name(EngineSpec(model="smollm2")) == "smollm2-135m"
    assert served_name(EngineSpec(model="/models/Qwen3-8B/")) == "Qwen3-8B"
    assert served_name(EngineSpec(model="Qwen/Qwen3-8B")) == "Qwen/Qwen3-8B"
    assert served_name(EngineSpec(model="/m", served_model_name="mine")) == "mine"
