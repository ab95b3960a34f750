"""`kilocard emulate`: engines that answer like vLLM, in real time, from the engine model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kilocard.cli.bounds import CardOption, KvOption, ModelOption, TpOption, WeightsOption
from kilocard.cli.facts import FactsOption, JsonOption, use_facts
from kilocard.cli.output import plain, print_json
from kilocard.specs import case_from
from kilocard.specs.demand import NO_LOAD

if TYPE_CHECKING:
    from kilocard.emulator import Emulator


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("emulate")(emulate)


def emulate(
    model: ModelOption,
    card: CardOption,
    replicas: Annotated[int, typer.Option(help="Engines, each on a port of its own.")] = 1,
    port: Annotated[
        int, typer.Option(help="Of the first engine, the others follow; 0 takes free ones.")
    ] = 8000,
    weights: WeightsOption = "bf16",
    kv: KvOption = "bf16",
    tp: TpOption = 1,
    max_num_seqs: Annotated[int, typer.Option(help="As vLLM's.")] = 256,
    max_num_batched_tokens: Annotated[
        int, typer.Option(help="As vLLM's flag, which by itself takes 8192 on an H100.")
    ] = 2048,
    max_model_len: Annotated[int | None, typer.Option(help="As vLLM's; default: the model's.")] = None,
    kv_blocks: Annotated[int | None, typer.Option(help="KV blocks; default: what the ledger leaves.")] = None,
    block_size: Annotated[int, typer.Option(help="Tokens a KV block.")] = 16,
    prefix_caching: Annotated[bool, typer.Option(help="Reuse equal prefixes.")] = True,
    speed: Annotated[float, typer.Option(help="Let virtual time run so many times as fast.")] = 1.0,
    calibration: Annotated[str | None, typer.Option(help="A file that `kilocard calibrate` wrote.")] = None,
    served_model_name: Annotated[str | None, typer.Option(help="The name that requests use.")] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME[=VALUE][@ENGINE][+SECONDS]: slow=K, hang, crash, refuse, http_500=SHARE, "
            "error_event=SHARE, start_s=SECONDS; of all engines, or of one; at once, or later. "
            "May be repeated; POST /emulator/fault changes it at run time."
        ),
    ] = None,
    facts_path: FactsOption = "",
    as_json: JsonOption = False,
) -> None:
    """Emulate engines until Ctrl-C: vLLM's API in the engine model's time. Text has no meaning, its tokens
    are estimated as bytes / 4, and every number that comes of it is stamped emulated."""
    from kilocard.emulator import Emulator
    from kilocard.emulator.serve import serve

    use_facts(facts_path)
    case = case_from(
        {
            "model": model, "card": card, "weights": weights, "kv": kv, "replicas": replicas,
            "engine": {
                "tensor_parallel_size": tp, "max_num_seqs": max_num_seqs,
                "max_num_batched_tokens": max_num_batched_tokens, "max_model_len": max_model_len,
                "kv_blocks": kv_blocks, "block_size": block_size, "enable_prefix_caching": prefix_caching,
            },
            "calibration": calibration, "workload": NO_LOAD.model_dump(),
        },
        "the flags",
    )  # fmt: skip

    def make() -> Emulator:
        return Emulator(case, port=port, speed=speed, served_model_name=served_model_name, faults=fault or ())

    serve(make, lambda emulator: _announce(emulator, as_json))


def _announce(emulator: Emulator, as_json: bool) -> None:
    if as_json:
        print_json(emulator.about())
        return
    urls = emulator.urls
    shown = urls[0] if len(urls) == 1 else f"{urls[0]} to {urls[-1].rpartition(':')[2]}"
    print(
        f"emulated: {len(urls)} x {plain(emulator.model)} on {emulator.case.card}: {shown}/v1; Ctrl-C ends it"
    )
    print(f"calibration: {emulator.calibration.name}; {emulator.kv_blocks:,} KV blocks each", flush=True)
