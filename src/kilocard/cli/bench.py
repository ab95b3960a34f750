"""`kilocard bench` measures an engine; `kilocard report` reads what was measured."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kilocard.bench_json import write_vllm_bench_json
from kilocard.cli.load_options import endpoint_of, numbers_of, open_loads, require_duration, shape_of, slo_of
from kilocard.cli.progress import LevelLines
from kilocard.cli.results import as_json, as_table
from kilocard.errors import KilocardError
from kilocard.load.client import Timeouts
from kilocard.load.interrupts import interrupts
from kilocard.load.sweep import checked_levels, replay, requests_of, sweep
from kilocard.load.target import DEFAULT_VOCABULARY, Target
from kilocard.record import Run
from kilocard.record.run import NAME_A_RUN
from kilocard.salvage import Saved, require_room, save
from kilocard.specs import SLO
from kilocard.stats import by_column, summarise

STOPPED_EXIT, INTERRUPTED_EXIT = 1, 130


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
        typer.Option(
            help="Requests a level: twice its concurrency at least, as its first round only fills it, so 40 "
            "make 64 at 32; unless given, 4 times, and 10 at least. Of an open loop, requests a rate."
        ),
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
    limits = slo_of(slo)
    require_duration(duration, rate)
    target = Target(url, model, endpoint_of(endpoint), vocabulary=vocabulary)
    options: dict[str, Any] = {
        "warmup": warmup,
        "timeouts": Timeouts(timeout, idle_timeout),
        "stamp": {"card": card} if card else None,
        "keep_chunk_times": chunk_times,
        "progress": LevelLines(sys.stderr),
    }
    lengths, notes = (prompt_tokens, output_tokens), list[str]()
    with interrupts(*_ends()):
        if rate:
            loads = open_loads(rate, requests, duration, shape_of(arrivals, cv), *lengths, seed)
            _require_out(out, sum(load.requests for load in loads))
            run = replay(target, workloads=loads, **options)
        else:
            levels = checked_levels(numbers_of(concurrency, int, "--concurrency"))
            counts = {level: requests_of(requests, level) for level in levels}
            _require_out(out, sum(counts[level] for level in levels))
            notes = _raised(requests, counts)
            run = sweep(
                target,
                concurrency=levels,
                requests_per_level=requests,
                prompt_tokens=prompt_tokens,
                output_tokens=output_tokens,
                seed=seed,
                **options,
            )
        saved = save(run, out) if out else None
        try:
            _print_results(run, limits, json, saved, notes)
        finally:  # also when nobody reads stdout: this says where the run lies
            code = _verdict(run, saved)
    raise typer.Exit(code)


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
    limits, measured = slo_of(slo), Run.read(run)
    _require_times(measured, run)
    if vllm_json:
        write_vllm_bench_json(measured, vllm_json, limits)
    groups = by_column(measured, by, limits) if by else None
    if json:
        print(as_json(measured, summarise(measured, limits), groups=groups, path=str(run)))
    else:
        print(as_table(measured, summarise(measured, limits), groups))


def _ends() -> list[signal.Signals]:
    """What ends a run early and in order; a hang-up does not, where `nohup` has it ignored."""
    hears_hang_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hears_hang_up else [])]


def _raised(asked: int | None, counts: Mapping[int, int]) -> list[str]:
    """Levels that make more requests than were asked for, in words."""
    return [
        f"{level} concurrent: {count} requests, not {asked}: a level makes twice its concurrency at least"
        for level, count in counts.items()
        if asked is not None and count > asked
    ]


def _print_results(run: Run, slo: SLO | None, json: bool, saved: Saved | None, notes: Sequence[str]) -> None:
    stages = summarise(run, slo)
    if json:
        print(as_json(run, stages, out=str(saved.path) if saved and saved.path else None, notes=notes))
    else:
        print("\n".join([as_table(run, stages), *notes]))


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


def _require_times(run: Run, path: Path) -> None:
    """A request that ended well was sent at some time: nothing can be said of it otherwise."""
    untimed = int(run.ok["sent_s"].isna().sum())
    if untimed:
        raise KilocardError(
            f"no report of {path}: of its {len(run.ok)} requests that ended well, {untimed} have no sent_s;"
            f" {NAME_A_RUN}"
        )


def _require_out(out: Path | None, rows: int) -> None:
    if out:
        require_room(out, rows)
