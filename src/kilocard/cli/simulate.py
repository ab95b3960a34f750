"""`kilocard simulate`: a cluster in virtual time, from a case file or from flags."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kilocard.cli.facts import FactsOption, JsonOption, use_facts
from kilocard.cli.load_options import numbers_of, slo_of
from kilocard.cli.output import print_json, print_pairs
from kilocard.cli.simulate_cluster import is_scenario
from kilocard.errors import KilocardError
from kilocard.specs import Case, case_from, read_case

FLAGS = (
    "name a CASE.yaml, or give --model, --card, --prompt-tokens, --output-tokens, --requests and --rate or "
    "--concurrency, or a --trace"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def simulate(
    case_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CASE.yaml]",
            help="A case, whose trace is looked for beside it; flags go before what it says. Or a scenario: "
            "a whole cluster file, its traffic and what befalls it.",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="A model's id, or the path of a config.json.")] = None,
    card: Annotated[str | None, typer.Option(help="A card's id; see `kilocard facts cards`.")] = None,
    weights: Annotated[str | None, typer.Option(help="Type of the weights: bf16 unless given.")] = None,
    kv: Annotated[str | None, typer.Option(help="Type of the KV cache: bf16 unless given.")] = None,
    tp: Annotated[int | None, typer.Option("--tp", help="Tensor-parallel cards an engine.")] = None,
    pp: Annotated[int | None, typer.Option("--pp", help="Pipeline stages an engine.")] = None,
    replicas: Annotated[int | None, typer.Option(help="Engines.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="Routing, like round-robin or least-delay; default: least-active."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Requests/s of the whole cluster; several like 5,10,20 are stages.")
    ] = None,
    concurrency: Annotated[
        str | None, typer.Option(help="Requests at once, in a closed loop; several like 1,8,64 are stages.")
    ] = None,
    requests: Annotated[int | None, typer.Option(help="Requests of each stage.")] = None,
    trace: Annotated[
        str | None, typer.Option(help="A recorded demand: .csv, .jsonl with hash_ids, or a run's .parquet.")
    ] = None,
    prompt_tokens: Annotated[int | None, typer.Option(help="Tokens of a prompt.")] = None,
    output_tokens: Annotated[int | None, typer.Option(help="Tokens of an answer.")] = None,
    arrivals: Annotated[str | None, typer.Option(help="constant, poisson or gamma.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="As vLLM's.")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(help="As vLLM's.")] = None,
    calibration: Annotated[str | None, typer.Option(help="A file that `kilocard calibrate` wrote.")] = None,
    slo: Annotated[
        str, typer.Option(help="Limits in seconds for goodput, like ttft_s=0.5,tpot_s=0.05.")
    ] = "",
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same run.")] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="Of a scenario: so many runs, for what is sure of them.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Keep the requests, as `kilocard bench --out` does.")
    ] = None,
    facts_path: FactsOption = "",
    as_json: JsonOption = False,
) -> None:
    """Simulate engines under load: latencies, throughput, goodput; exact to the step, calibrated, with its
    expected error."""
    use_facts(facts_path)
    workload = {
        "trace": trace,
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "arrivals": arrivals,
        **_load(rate, concurrency, requests),
    }
    engine = {
        "tensor_parallel_size": tp,
        "pipeline_parallel_size": pp,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
    }
    given = {
        "model": model,
        "card": card,
        "weights": weights,
        "kv": kv,
        "replicas": replicas,
        "policy": policy,
        "calibration": calibration,
        "seed": seed,
        "engine": _given(engine),
        "workload": _given(workload),
    }
    limits = slo_of(slo)
    if case_file is not None and is_scenario(case_file):
        _report_cluster(case_file, {**_flags(given), **({"slo": slo} if slo else {})}, seeds, out, as_json)
        return
    if seeds > 1:
        raise KilocardError("--seeds is for scenarios: a case is simulated with one --seed")
    case = _case(case_file, {name: value for name, value in given.items() if value not in (None, {})})
    _report(case.model_copy(update={"slo": limits}) if limits else case, out, as_json)


def _flags(given: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line, by the flags' names."""
    inner = {**given["engine"], **given["workload"]}
    own = {name: value for name, value in given.items() if name not in ("engine", "workload")}
    return _given({**own, **inner})


def _report_cluster(path: Path, given: dict[str, Any], seeds: int, out: Path | None, as_json: bool) -> None:
    from kilocard.cli.simulate_cluster import report, scenario_of, show

    scenario = scenario_of(path, given)
    with _progress() as progress:
        result = report(scenario, seeds, out, progress)
    show(result, as_json, _trust(result), _pairs(result["run"]))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _load(rate: str | None, concurrency: str | None, requests: int | None) -> dict[str, Any]:
    """`--rate`, `--concurrency` and `--requests` as a demand says it."""
    if rate is not None and concurrency is not None:
        raise KilocardError("give --rate (an open loop) or --concurrency (a closed one), not both")
    if concurrency is not None:
        widths = numbers_of(concurrency, int, "--concurrency")
        return {"stages": [_given({"concurrency": width, "requests": requests}) for width in widths]}
    rates = [] if rate is None else numbers_of(rate, float, "--rate")
    if len(rates) > 1:
        return {"stages": [_given({"rate_per_s": each, "requests": requests}) for each in rates]}
    return {"rate_per_s": rates[0] if rates else None, "requests": requests}


def _case(case_file: Path | None, given: dict[str, Any]) -> Case:
    if case_file is not None:
        return read_case(case_file, given)
    missing = [f"--{name}" for name in ("model", "card") if name not in given]
    if "workload" not in given:
        missing.append("--requests")
    if missing:
        raise KilocardError(f"no case: {', '.join(missing)} not given; {FLAGS}")
    return case_from(given, "the flags")


def _report(case: Case, out: Path | None, as_json: bool) -> None:
    from kilocard.fleet import simulate_case

    with _progress() as progress:
        run, result = simulate_case(case, progress=progress)
    if out:
        run.write(out)
    print_json(result) if as_json else _print(case, result)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal; nothing anywhere else."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("simulated requests"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print(case: Case, result: dict[str, Any]) -> None:
    whole = result["run"]
    cards = case.engine.tensor_parallel_size * case.engine.pipeline_parallel_size
    title = (
        f"simulated: {case.replicas} x {case.model} on {cards} x {case.card}, "
        f"{whole['requests']:,} requests, in {result['wall_s']:.2f} s:"
    )
    notes = [_trust(result)]
    if len(result["stages"]) > 1:
        notes = [*(_stage_line(stage) for stage in result["stages"]), *notes]
    print_pairs(title, _pairs(whole), notes)


def _pairs(whole: dict[str, Any]) -> list[tuple[str, str]]:
    pairs = [
        (name.removesuffix("_s").upper(), _latencies(whole[name])) for name in ("ttft_s", "tpot_s", "e2e_s")
    ]
    pairs.append(
        (
            "throughput",
            f"{_rate(whole['output_tokens_per_s'])} output tokens/s, "
            f"{_rate(whole['requests_per_s'])} requests/s",
        )
    )
    if whole["goodput_per_s"] is not None:
        met = f"{_rate(whole['goodput_per_s'])} requests/s; {whole['goodput_ratio']:.1%} meet the SLO"
        pairs.append(("goodput", met))
    return [
        *pairs,
        ("utilization", f"{whole['utilization']:.0%} of the time a step runs"),
        ("prefix hits", f"{whole['prefix_hit_ratio']:.0%} of prompt tokens"),
        ("preemptions", f"{whole['preemptions']:,}"),
    ]


def _stage_line(stage: dict[str, Any]) -> str:
    ttft, tpot = (_milliseconds(stage[name]["p50"]) for name in ("ttft_s", "tpot_s"))
    return (
        f"stage {stage['stage']}: {stage['requests']:,} requests, TTFT p50 {ttft}, TPOT p50 {tpot}, "
        f"{_rate(stage['output_tokens_per_s'])} output tokens/s"
    )


def _trust(result: dict[str, Any]) -> str:
    errors = ", ".join(
        f"{name} {error:.0%}" for name, error in result["expected_error"].items() if isinstance(error, float)
    )
    datasheet = result["calibration_kind"] == "datasheet"
    what = "unverified bound to plan with" if datasheet else "median error that its kind has shown"
    return f"calibration: {result['calibration']}; {what}: {errors or 'unknown'}"


def _latencies(values: dict[str, Any]) -> str:
    shown = [
        (name, values[name]) for name in ("mean", "p50", "p90", "p95", "p99") if values[name] is not None
    ]
    return "  ".join(f"{name} {_milliseconds(value)}" for name, value in shown) or "–"


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{1e3 * value:,.4g} ms"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"
