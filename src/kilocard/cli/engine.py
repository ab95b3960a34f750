"""`kilocard engine`: a real engine in the foreground, shared with every notebook that asks for its spec."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from kilocard.cli.output import plain, print_json
from kilocard.errors import KilocardError
from kilocard.launch import Engine, EngineError, default_spec, launch
from kilocard.launch.process import DRAIN_S, READY_TIMEOUT_S
from kilocard.specs.engine import EngineSpec

MODEL_HELP = "smollm2-135m, random-qwen3-200m (can be cut; answers noise), a folder, or a Hugging Face id."


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("engine")(run_engine)


def run_engine(
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = "",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 0,
    served_model_name: Annotated[str | None, typer.Option(help="The name that requests use.")] = None,
    max_model_len: Annotated[int | None, typer.Option(help="Tokens a sequence, prompt and answer.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="Sequences in one step.")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(help="Tokens in one step.")] = None,
    max_num_queued_reqs: Annotated[int | None, typer.Option(help="Requests held before 503.")] = None,
    kv_cache_memory_bytes: Annotated[int | None, typer.Option(help="KV cache of a rank, bytes.")] = None,
    gpu_memory_utilization: Annotated[float | None, typer.Option(help="Share of the card, 0 to 1.")] = None,
    block_size: Annotated[int | None, typer.Option(help="Tokens a KV block.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Type of the weights.")] = None,
    quantization: Annotated[str | None, typer.Option(help="Quantization of the weights.")] = None,
    kv_cache_dtype: Annotated[str | None, typer.Option(help="Type of the KV cache.")] = None,
    tensor_parallel_size: Annotated[int | None, typer.Option("--tensor-parallel-size", "--tp")] = None,
    pipeline_parallel_size: Annotated[int | None, typer.Option("--pipeline-parallel-size", "--pp")] = None,
    data_parallel_size: Annotated[int | None, typer.Option("--data-parallel-size", "--dp")] = None,
    enable_prefix_caching: Annotated[bool | None, typer.Option(help="Reuse equal prefixes.")] = None,
    enforce_eager: Annotated[bool | None, typer.Option(help="No compilation; default on a CPU.")] = None,
    seed: Annotated[int | None, typer.Option()] = None,
    cores: Annotated[str, typer.Option(help="The only cores that it may use, like 1 or 2,3.")] = "",
    extra: Annotated[str, typer.Option(help="More of vLLM's flags, quoted as one.")] = "",
    drain_s: Annotated[float, typer.Option(min=0, help="Time to finish streams at the end.")] = DRAIN_S,
    ready_timeout_s: Annotated[float, typer.Option(min=1)] = READY_TIMEOUT_S,
    follow_log: Annotated[bool, typer.Option("--log", help="Show the engine's log on stderr.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object when ready.")] = False,
) -> None:
    """Start a real engine, or join the one with this spec, and hold it until Ctrl-C."""
    given = {
        key: value for key, value in locals().items() if key in EngineSpec.model_fields and value is not None
    }
    spec = spec_from(model, {**given, "extra_args": _words(extra)})
    signal.signal(signal.SIGTERM, _end)
    try:
        with launch(
            spec,
            port=port,
            say=_say,
            drain_s=drain_s,
            ready_timeout_s=ready_timeout_s,
            stand_in=False,
            cores=_cores(cores),
        ) as engine:
            if follow_log and engine.log_path:
                threading.Thread(target=_follow, args=(engine.log_path,), daemon=True).start()
            _announce(engine, as_json)
            engine.wait()
    except EngineError as error:
        print(error.log_tail, file=sys.stderr)
        raise


def spec_from(model: str, given: dict[str, Any]) -> EngineSpec:
    """The book's spec with what was given in its place; one line for a bad value."""
    base = default_spec(model or None).model_dump()
    given.pop("model", None)
    try:
        return EngineSpec.model_validate({**base, **given})
    except ValidationError as error:
        first = error.errors()[0]
        flag = "--" + str(first["loc"][0]).replace("_", "-")
        raise KilocardError(f"{flag} {first['input']}: {first['msg'].lower()}") from error


def _words(extra: str) -> list[str]:
    try:
        return shlex.split(extra)
    except ValueError as error:
        raise KilocardError(f"--extra {extra!r}: {str(error).lower()}; quote it as a shell would") from error


def _cores(given: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in given.split(",")) if given else ()
    except ValueError as error:
        raise KilocardError(f"--cores {given!r} is no list of numbers: write them like 1 or 2,3") from error


def _announce(engine: Engine, as_json: bool) -> None:
    facts = {
        "url": engine.url,
        "model": engine.model,
        "engine": "vllm",
        "engine_version": engine.version,
        "flavour": engine.flavour.value,
        "shared": engine.is_shared,
        "ready_s": round(engine.ready_s, 2),
        "log": str(engine.log_path) if engine.log_path else None,
        "settings": engine.spec.settings(),
    }
    if as_json:
        print_json(facts)
        return
    print(f"ready after {engine.ready_s:.1f} s: {engine.url}/v1, model {plain(engine.model)}")
    print(f"log: {facts['log'] or 'kept where it runs'}; Ctrl-C lets go of it", flush=True)


def _end(*_: object) -> None:
    raise typer.Exit(0)


def _say(line: str) -> None:
    print(plain(line), file=sys.stderr, flush=True)


def _follow(log: Path) -> None:
    with log.open(errors="replace") as lines:
        while True:
            if line := lines.readline():
                print(line, end="", file=sys.stderr, flush=True)
            else:
                time.sleep(0.2)
