"""From a recipe to a program: the argv, the environment with its secrets, the log."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.gateway.keys import read_secret
from kilocard.gateway.place import Place as GatewayPlace
from kilocard.launch.command import Build, build_command, find_build
from kilocard.launch.keep import Program
from kilocard.launch.model_files import model_folder, torch_cache
from kilocard.launch.place import Place
from kilocard.launch.process import usable_cores
from kilocard.launch.stand_in import stand_in_case
from kilocard.specs.case import Case, case_from
from kilocard.specs.cluster import Secret
from kilocard.specs.demand import NO_LOAD
from kilocard.supervisor.recipe import Recipe

ENGINE_KEY = "VLLM_API_KEY"


def engine_program(recipe: Recipe, port: int, log: Path, place: Place, engine_key: str = "") -> Program:
    """An engine on this box, real or emulated."""
    if recipe.is_emulated:
        return _emulated(recipe, port, log)
    return _real(recipe, port, log, place, find_build(), engine_key)


def gateway_program(place: GatewayPlace, log: Path) -> Program:
    """One gateway process; at its end it finishes what is under way."""
    told = json.dumps({**asdict(place), "path": str(place.path)})
    argv = (sys.executable, "-m", "kilocard.gateway", told)
    stop_s = place.drain_s + 5.0
    return Program(argv, dict(os.environ), log, stop_s, host=place.host, port=place.port)


def _real(recipe: Recipe, port: int, log: Path, place: Place, build: Build, engine_key: str) -> Program:
    model = model_folder(recipe.engine.model, None)
    command = build_command(recipe.engine, build, model, usable_cores(), recipe.stop_s, place=place)
    revision = ("--revision", recipe.weights.revision) if recipe.weights.revision else ()
    key = {ENGINE_KEY: engine_key} if engine_key else {}
    environment = {**torch_cache(), **os.environ, **command.environment, **_own(recipe), **key}
    argv = [*command.on_port(port), *revision]
    return Program(argv, environment, log, recipe.stop_s, place.cores, port=port)


def _emulated(recipe: Recipe, port: int, log: Path) -> Program:
    case = emulated_case(recipe)
    asked = {
        "case": case.model_dump(mode="json"),
        "port": port,
        "served_model_name": recipe.engine.served_model_name,
    }
    argv = (sys.executable, "-m", "kilocard.emulator", json.dumps(asked))
    return Program(argv, dict(os.environ), log, recipe.stop_s, port=port)


def emulated_case(recipe: Recipe) -> Case:
    """The card that the pool names; without one, the book's own box."""
    if recipe.card is None:
        return stand_in_case(recipe.engine)
    settings = {name: value for name in _SAME if (value := getattr(recipe.engine, name)) is not None}
    model = recipe.engine.served_model_name or recipe.engine.model
    told = {"model": model, "card": recipe.card, "engine": settings, "workload": NO_LOAD.model_dump()}
    return case_from(told, f"the emulated engine of {model}")


_SAME = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "gpu_memory_utilization",
    "block_size",
    "enable_prefix_caching",
)


def _own(recipe: Recipe) -> dict[str, str]:
    """The recipe's environment, its secrets read where they stand."""
    told = {}
    for name, value in recipe.environment.items():
        told[name] = read_secret(value) if isinstance(value, Secret) else value
        if "\0" in told[name]:
            raise KilocardError(f"environment.{name} holds a zero byte: no program can be given one")
    return told
