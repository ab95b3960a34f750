"""`kilocard simulate`: a cluster in virtual time, from a case file or from flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kilocard.cli.bounds import KvOption, WeightsOption
from kilocard.cli.facts import FactsOption, JsonOption, use_facts
from kilocard.cli.load_options import slo_of
from kilocard.cli.output import print_json, print_pairs
from kilocard.errors import KilocardError
from kilocard.specs import Case, case_from, read_case

FLAGS = "name a CASE.yaml, or give --model, --card, --rate, --requests, --prompt-tokens and --output-tokens"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def simulate(
    case_file: Annotated[
        Path | None, typer.Argument(metavar="[CASE.yaml]", help="A case; flags are shorthands for one.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A model's id, or the path of a config.json.")] = None,
    card: Annotated[str | None, typer.Option(help="A card's id; see `kilocard facts cards`.")] = None,
    weights: WeightsOption = "bf16",
    kv: KvOption = "bf16",
    tp: Annotated[int, typer.Option("--tp", help="Tensor-parallel cards an engine.")] = 1,
    replicas: Annotated[int, typer.Option(help="Engines.")] = 1,
    policy: Annotated[str, typer.Option(help="random, round-robin or least-active.")] = "least-active",
    rate: Annotated[float | None, typer.Option(help="Requests/s of the whole cluster.")] = None,
    requests: Annotated[int | None, typer.Option(help="Requests in all.")] = None,
    prompt_tokens: Annotated[int | None, typer.Option(help="Tokens of a prompt.")] = None,
    output_tokens: Annotated[int | None, typer.Option(help="Tokens of an answer.")] = None,
    arrivals: Annotated[str, typer.Option(help="constant, poisson or gamma.")] = "poisson",
    max_num_seqs: Annotated[int, typer.Option(help="As vLLM's.")] = 256,
    max_num_batched_tokens: Annotated[int, typer.Option(help="As vLLM's.")] = 2048,
    calibration: Annotated[str | None, typer.Option(help="A file that `kilocard calibrate` wrote.")] = None,
    slo: Annotated[
        str, typer.Option(help="Limits in seconds for goodput, like ttft_s=0.5,tpot_s=0.05.")
    ] = "",
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Keep the requests, as `kilocard bench --out` does.")
    ] = None,
    facts_path: FactsOption = "",
    as_json: JsonOption = False,
) -> None:
    """Simulate engines under load: latencies, throughput, goodput; exact to the step, calibrated, with its
    expected error."""
    use_facts(facts_path)
    if case_file is not None:
        case = read_case(case_file)
    else:
        given = {
            "model": model, "card": card, "rate": rate, "requests": requests,
            "prompt-tokens": prompt_tokens, "output-tokens": output_tokens,
        }  # fmt: skip
        missing = [f"--{name}" for name, value in given.items() if value is None]
        if missing:
            raise KilocardError(f"no case: {', '.join(missing)} not given; {FLAGS}")
        case = case_from(
            {
                "model": model, "card": card, "weights": weights, "kv": kv,
                "replicas": replicas, "policy": policy,
                "engine": {
                    "tensor_parallel_size": tp, "max_num_seqs": max_num_seqs,
                    "max_num_batched_tokens": max_num_batched_tokens,
                },
                "calibration": calibration, "seed": seed,
                "workload": {
                    "rate_per_s": rate, "requests": requests, "arrivals": arrivals,
                    "prompt_tokens": prompt_tokens, "output_tokens": output_tokens,
                },
            },
            "the flags",
        )  # fmt: skip
    limits = slo_of(slo)
    if limits:
        case = case.model_copy(update={"slo": limits})
    _report(case, out, as_json)


def _report(case: Case, out: Path | None, as_json: bool) -> None:
    from kilocard.fleet import simulate_case

    run, result = simulate_case(case)
    if out:
        run.write(out)
    print_json(result) if as_json else _print(case, result)


def _print(case: Case, result: dict[str, Any]) -> None:
    whole = result["run"]
    pairs = [
        (name.removesuffix("_s").upper(), _latencies(whole[name])) for name in ("ttft_s", "tpot_s", "e2e_s")
    ]
    pairs += [
        (
            "throughput",
            f"{_rate(whole['output_tokens_per_s'])} output tokens/s, "
            f"{_rate(whole['requests_per_s'])} requests/s",
        ),
        ("utilization", f"{whole['utilization']:.0%} of the time a step runs"),
        ("prefix hits", f"{whole['prefix_hit_ratio']:.0%} of prompt tokens"),
        ("preemptions", f"{whole['preemptions']:,}"),
    ]
    if whole["goodput_per_s"] is not None:
        pairs.insert(
            4,
            (
                "goodput",
                f"{_rate(whole['goodput_per_s'])} requests/s; {whole['goodput_ratio']:.1%} meet the SLO",
            ),
        )
    title = (
        f"simulated: {case.replicas} x {case.model} on {case.engine.tensor_parallel_size} x {case.card}, "
        f"{whole['requests']:,} requests, in {result['wall_s']:.2f} s:"
    )
    print_pairs(title, pairs, [_trust(result)])


def _trust(result: dict[str, Any]) -> str:
    errors = ", ".join(
        f"{name} {error:.0%}" for name, error in result["expected_error"].items() if isinstance(error, float)
    )
    return (
        f"calibration: {result['calibration']}; median error that its kind has shown: {errors or 'unknown'}"
    )


def _latencies(values: dict[str, Any]) -> str:
    shown = [
        (name, values[name]) for name in ("mean", "p50", "p90", "p95", "p99") if values[name] is not None
    ]
    return "  ".join(f"{name} {1e3 * value:,.4g} ms" for name, value in shown)


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"
