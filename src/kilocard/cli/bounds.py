"""`kilocard ledger` and `kilocard roofline`: what fits, and how fast a datasheet lets it be."""

from __future__ import annotations

from typing import Annotated

import typer

from kilocard.cli.facts import FactsOption, JsonOption, use_facts
from kilocard.cli.output import print_json, print_pairs
from kilocard.memory import Ledger, ledger
from kilocard.roofline import Roofline, roofline

ModelOption = Annotated[str, typer.Option("--model", help="A model's id, or the path of a config.json.")]
CardOption = Annotated[str, typer.Option("--card", help="A card's id; see `kilocard facts cards`.")]
WeightsOption = Annotated[str, typer.Option("--weights", help="bf16, fp16, fp32, fp8, int8 or int4 (W4A16).")]
KvOption = Annotated[str, typer.Option("--kv", help="bf16, fp16, fp8 or int8.")]
TpOption = Annotated[int, typer.Option("--tp", help="Tensor-parallel cards.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("ledger")(show_ledger)
    app.command("roofline")(show_roofline)


def show_ledger(
    model: ModelOption,
    card: CardOption,
    context: Annotated[int, typer.Option("--context", help="Tokens of each sequence, prompt and output.")],
    concurrency: Annotated[int, typer.Option("--concurrency", help="Sequences at once.")],
    weights: WeightsOption = "bf16",
    kv: KvOption = "bf16",
    tp: TpOption = 1,
    pp: Annotated[int, typer.Option("--pp", help="Pipeline stages; the fullest card is told.")] = 1,
    max_num_batched_tokens: Annotated[int, typer.Option(help="Tokens of one step, as vLLM's.")] = 2048,
    gpu_memory_utilization: Annotated[float, typer.Option(help="Share of the card, as vLLM's.")] = 0.9,
    memory_gb: Annotated[
        float | None, typer.Option(help="The card's memory as its driver reports it.")
    ] = None,
    facts_path: FactsOption = "",
    as_json: JsonOption = False,
) -> None:
    """The memory of one card: weights, KV, state, activations, engine; and whether it fits."""
    use_facts(facts_path)
    result = ledger(
        model,
        card,
        weights=weights,
        kv=kv,
        context=context,
        concurrency=concurrency,
        tp=tp,
        pp=pp,
        max_num_batched_tokens=max_num_batched_tokens,
        gpu_memory_utilization=gpu_memory_utilization,
        memory_gb=memory_gb,
    )
    print_json(result.as_dict()) if as_json else _print_ledger(result)


def show_roofline(
    model: ModelOption,
    card: CardOption,
    batch: Annotated[int, typer.Option("--batch", help="Sequences that decode together.")],
    context: Annotated[int, typer.Option("--context", help="Tokens of each; also the prompt to prefill.")],
    weights: WeightsOption = "bf16",
    kv: KvOption = "bf16",
    tp: TpOption = 1,
    facts_path: FactsOption = "",
    as_json: JsonOption = False,
) -> None:
    """The bounds of decode and prefill that the card's datasheet sets, and what limits each."""
    use_facts(facts_path)
    result = roofline(model, card, weights=weights, kv=kv, batch=batch, context=context, tp=tp)
    print_json(result.as_dict()) if as_json else _print_roofline(result)


def _print_ledger(result: Ledger) -> None:
    verdict = "fits" if result.fits else "does not fit"
    pairs = [
        ("weights", f"{_gb(result.weights_bytes_per_rank)}  of {_gb(result.weights_bytes)} in all"),
        ("KV", f"{_gb(result.kv_bytes)}  {result.kv_bytes_per_token_per_rank:,} bytes a token"),
        ("state", _gb(result.state_bytes)),
        ("activations", f"{_gb(result.activation_bytes)}  estimate"),
        ("engine", f"{_gb(result.engine_overhead_bytes)}  estimate"),
        ("total", f"{_gb(result.total_bytes)}  {verdict} in {_gb(result.usable_bytes)}"),
        ("left", _gb(result.headroom_bytes)),
        ("KV room", f"{result.max_kv_tokens:,} tokens for these sequences"),
        ("at most", f"{result.max_concurrency:,} sequences of this context"),
    ]
    print_pairs(
        f"{_title(result)}, {result.concurrency} x {result.context_tokens} tokens, each card:",
        pairs,
        _remarks(result),
    )


def _print_roofline(result: Roofline) -> None:
    shares = f"weights {result.decode_weights_share:.0%}, KV {result.decode_kv_share:.0%} of the bytes"
    pairs = [
        ("decode step", f"{_ms(result.decode_step_s)}  limited by {_plain(result.limited_by)}; {shares}"),
        ("decode", f"{result.decode_tokens_per_s:,.0f} tokens/s in all"),
        ("prefill", f"{_ms(result.prefill_s)}  limited by {_plain(result.prefill_limited_by)}"),
        (
            "intensity",
            f"{result.decode_flops_per_byte:.1f} FLOP/byte; ridge at {result.ridge_flops_per_byte:.0f}",
        ),
        (
            "batch at ridge",
            "none at this context" if result.batch_at_ridge is None else f"{result.batch_at_ridge:,}",
        ),
    ]
    if result.tensor_parallel > 1:
        pairs.insert(
            2,
            (
                "collectives",
                "unknown" if result.collective_s is None else f"{_ms(result.collective_s)} a step more",
            ),
        )
    print_pairs(
        f"{_title(result)}, batch {result.batch} at {result.context_tokens} tokens:", pairs, _remarks(result)
    )


def _title(result: Ledger | Roofline) -> str:
    ranks = result.tensor_parallel * (result.pipeline_parallel if isinstance(result, Ledger) else 1)
    layout = f"{ranks} x {result.card}" if ranks > 1 else result.card
    return f"{result.model} on {layout}, weights {result.weights}, KV {result.kv}"


def _remarks(result: Ledger | Roofline) -> list[str]:
    return [*result.notes, *([f"unverified: {', '.join(result.unverified)}"] if result.unverified else [])]


def _gb(count: int) -> str:
    return f"{count / 1e9:,.2f} GB"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms"


def _plain(resource: str) -> str:
    return resource.replace("_", " ")
