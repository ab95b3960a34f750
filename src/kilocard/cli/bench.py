"""`kilocard bench` measures an engine; `kilocard report` reads what was measured."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from pydantic import ValidationError

from kilocard.bench_json import write_vllm_bench_json
from kilocard.cli.progress import LevelLines
from kilocard.cli.results import as_json, as_table
from kilocard.errors import KilocardError
from kilocard.load.client import Timeouts
from kilocard.load.sweep import checked_levels, replay, requests_for, sweep
from kilocard.load.target import DEFAULT_VOCABULARY, Endpoint, Target
from kilocard.record import Run
from kilocard.salvage import Saved, require_room, save
from kilocard.specs import SLO
from kilocard.stats import by_column, summarise
from kilocard.workload import Arrivals, Fixed, Process, Workload

STOPPED_EXIT, INTERRUPTED_EXIT = 1, 130
SLO_FIELDS = {"ttft": "ttft_p99_s", "tpot": "tpot_p99_s", "e2e": "e2e_p99_s"}


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(bench)
    app.command()(report)


def bench(
    url: Annotated[
        str, typer.Option(envvar="KILOCARD_ENGINE_URL", help="The engine, like http://127.0.0.1:8000.")
    ],
    model: Annotated[
        str, typer.Option(help="A model that it serves; may be left out when it serves one.")
    ] = "",
    concurrency: Annotated[str, typer.Option(help="Levels of a closed-loop sweep.")] = "1,2,4,8,16,32",
    rate: Annotated[str, typer.Option(help="Open loop instead: requests/s, one stage each, like 2,4.")] = "",
    requests: Annotated[
        int | None,
        typer.Option(help="Requests a level (twice its concurrency at least; default 4 times, 10 at least)."),
    ] = None,
    duration: Annotated[float | None, typer.Option(help="Seconds of each open-loop stage.")] = None,
    arrivals: Annotated[str, typer.Option(help="Open loop: constant, poisson or gamma.")] = "poisson",
    cv: Annotated[float, typer.Option(help="Coefficient of variation of gamma arrivals.")] = 1.0,
    prompt_tokens: Annotated[int, typer.Option(help="Tokens of each prompt.")] = 128,
    output_tokens: Annotated[int, typer.Option(help="Tokens of each answer.")] = 64,
    endpoint: Annotated[str, typer.Option(help="completions (exact token counts) or chat.")] = "completions",
    vocabulary: Annotated[int, typer.Option(help="Prompts use token ids below this.")] = DEFAULT_VOCABULARY,
    warmup: Annotated[int, typer.Option(help="Requests before the first level, not counted.")] = 1,
    seed: Annotated[int, typer.Option(help="The same seed makes the same requests.")] = 0,
    timeout: Annotated[float, typer.Option(help="Seconds for a whole request.")] = 600.0,
    idle_timeout: Annotated[
        float, typer.Option(help="Seconds without a byte, after which it counts as hung.")
    ] = 120.0,
    slo: Annotated[str, typer.Option(help="Limits in seconds for goodput, like ttft=0.5,tpot=0.05.")] = "",
    card: Annotated[str, typer.Option(help="The card, where it is not this machine's.")] = "",
    chunk_times: Annotated[bool, typer.Option("--chunk-times", help="Keep the time of every chunk.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the run here (.parquet).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure an engine: TTFT, TPOT and throughput at each level, request by request.

    Ctrl-C ends the run early and keeps what was measured. Exit 0: measured; 1: stopped early, or the run lies
    elsewhere than --out; 2: bad input; 130: interrupted.
    """
    limits = _slo(slo)
    target = Target(url, model, _endpoint(endpoint), vocabulary=vocabulary)
    options: dict[str, Any] = {
        "warmup": warmup,
        "timeouts": Timeouts(timeout, idle_timeout),
        "stamp": {"card": card} if card else None,
        "keep_chunk_times": chunk_times,
        "progress": LevelLines(sys.stderr),
    }
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    if rate:
        loads = _open_loads(
            rate, requests, duration, _shape(arrivals, cv), prompt_tokens, output_tokens, seed
        )
        _require_out(out, sum(load.requests for load in loads))
        run = replay(target, workloads=loads, **options)
    else:
        levels = checked_levels(_numbers(concurrency, int, "--concurrency"))
        _require_out(out, sum(max(requests or requests_for(level), 2 * level) for level in levels))
        run = sweep(
            target,
            concurrency=levels,
            requests_per_level=requests,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            seed=seed,
            **options,
        )
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)
    saved = save(run, out) if out else None
    _print_results(run, limits, json, saved)
    raise typer.Exit(_verdict(run, saved))


def report(
    run: Annotated[Path, typer.Argument(help="A .parquet that `kilocard bench --out` wrote.")],
    slo: Annotated[str, typer.Option(help="Limits in seconds for goodput, like ttft=0.5,tpot=0.05.")] = "",
    by: Annotated[
        str, typer.Option(help="Group by a column instead of by stage: node, replica, tenant.")
    ] = "",
    vllm_json: Annotated[Path | None, typer.Option(help="Also write it as vLLM's bench JSON.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Read a measured run: its levels, percentiles, goodput and knee."""
    limits, measured = _slo(slo), Run.read(run)
    if vllm_json:
        write_vllm_bench_json(measured, vllm_json, limits)
    groups = by_column(measured, by, limits) if by else None
    if json:
        print(as_json(measured, summarise(measured, limits), groups=groups, path=str(run)))
    else:
        print(as_table(measured, summarise(measured, limits), groups))


def _print_results(run: Run, slo: SLO | None, json: bool, saved: Saved | None) -> None:
    stages = summarise(run, slo)
    if json:
        print(as_json(run, stages, out=str(saved.path) if saved and saved.path else None))
    else:
        print(as_table(run, stages))


def _verdict(run: Run, saved: Saved | None) -> int:
    """Say in one line what a person must know, and return the exit code."""
    client, lines, code = run.stamp.client, [], 0
    failed = len(run.requests) - len(run.ok)
    if failed:
        counts = run.requests["status"].value_counts()
        lines.append(
            f"{failed} of {len(run.requests)} requests failed ("
            + ", ".join(f"{count} {name}" for name, count in counts.items() if name != "ok")
            + ")"
        )
    if client["stopped"]:
        code = INTERRUPTED_EXIT if client["interrupted"] else STOPPED_EXIT
        lines.insert(0, client["stopped"])
    if not run.stamp.valid:
        lines.append(f"the run is not valid: {run.stamp.invalid_reason}")
    if saved and saved.problem:
        code = code or STOPPED_EXIT
        lines.append(saved.problem + (f"; the run is saved in {saved.path}" if saved.path else _spill(run)))
    elif saved and lines:
        lines.append(f"what was measured is in {saved.path}")
    if lines:
        print(f"kilocard: {'; '.join(lines)}", file=sys.stderr)
    return code


def _spill(run: Run) -> str:
    """The last resort: no folder takes the run, so its table goes to the terminal."""
    run.requests.to_csv(sys.stderr, index=False)
    return "; no other folder takes it, so its table stands above as CSV"


def _shape(process: str, cv: float) -> Arrivals:
    if process not in get_args(Process):
        raise KilocardError(f"unknown --arrivals {process!r}: use {', '.join(get_args(Process))}")
    return Arrivals(1.0, cast(Process, process), cv)


def _require_out(out: Path | None, rows: int) -> None:
    if out:
        require_room(out, rows)


def _endpoint(name: str) -> Endpoint:
    if name not in get_args(Endpoint):
        raise KilocardError(f"unknown --endpoint {name!r}: use {', '.join(get_args(Endpoint))}")
    return cast(Endpoint, name)


def _open_loads(
    rates: str,
    requests: int | None,
    duration: float | None,
    shape: Arrivals,
    prompt_tokens: int,
    output_tokens: int,
    seed: int,
) -> list[Workload]:
    loads = []
    for rate in _numbers(rates, float, "--rate"):
        arriving = Arrivals(rate, shape.process, shape.cv)
        count = requests if requests is not None else max(1, round(rate * (duration or 30.0)))
        loads.append(Workload(count, Fixed(prompt_tokens), Fixed(output_tokens), arriving, seed=seed))
    return loads


def _numbers(text: str, kind: type, option: str) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError as error:
        raise KilocardError(f"{option} {text!r} is no list of numbers: write it like 1,8,64") from error


def _slo(text: str) -> SLO | None:
    """`ttft=0.5,tpot=0.05` → SLO."""
    if not text:
        return None
    limits = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name.strip() not in SLO_FIELDS:
            raise KilocardError(
                f"--slo {text!r}: unknown limit {name.strip()!r}; write it like ttft=0.5,tpot=0.05"
            )
        limits[SLO_FIELDS[name.strip()]] = value
    try:
        return SLO.model_validate(limits)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise KilocardError(f"--slo {text!r}: {reason}; write it like ttft=0.5,tpot=0.05") from error
