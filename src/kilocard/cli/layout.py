"""`kilocard layout`: copy or cut, and into how many cards."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kilocard import facts
from kilocard.cli.bounds import CardOption, KvOption, ModelOption, WeightsOption
from kilocard.cli.facts import FactsOption, JsonOption, use_facts
from kilocard.cli.output import print_json, print_pairs
from kilocard.errors import KilocardError
from kilocard.layout import Candidate, Choice, Judge, Load, Needs, choose_layout
from kilocard.layout.choose import Rejected
from kilocard.parallel.layout import Layout
from kilocard.specs.interconnect import CARDS_PER_NODE, DEFAULT_NETWORK, Interconnect

MOST_CARDS_PER_NODE = 1024


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("layout")(show_layout)


def show_layout(
    model: ModelOption,
    card: CardOption,
    weights: WeightsOption = "bf16",
    kv: KvOption = "bf16",
    prompt_tokens: Annotated[int, typer.Option(help="Tokens of each prompt.")] = 1536,
    output_tokens: Annotated[int, typer.Option(help="Tokens of each answer.")] = 512,
    concurrency: Annotated[int, typer.Option(help="Requests that a replica has to hold at once.")] = 4,
    tpot_ms: Annotated[float | None, typer.Option(help="TPOT that it has to meet.")] = None,
    ttft_ms: Annotated[float | None, typer.Option(help="TTFT that it has to meet.")] = None,
    cards: Annotated[int | None, typer.Option(help="Cards there are; by default whole machines.")] = None,
    cards_per_node: Annotated[int, typer.Option(help="Cards of a machine.")] = CARDS_PER_NODE,
    link: Annotated[
        str | None, typer.Option(help="Link inside a machine; by default the card's own.")
    ] = None,
    network: Annotated[
        str, typer.Option(help="Link between machines; see `kilocard facts links`.")
    ] = DEFAULT_NETWORK,
    tp: Annotated[int | None, typer.Option("--tp", help="Judge this tensor-parallel degree.")] = None,
    pp: Annotated[int | None, typer.Option("--pp", help="Judge this number of pipeline stages.")] = None,
    max_num_batched_tokens: Annotated[int, typer.Option(help="Tokens of one step, as vLLM's.")] = 2048,
    gpu_memory_utilization: Annotated[float, typer.Option(help="Share of the card, as vLLM's.")] = 0.9,
    memory_gb: Annotated[
        float | None, typer.Option(help="The card's memory as its driver reports it.")
    ] = None,
    calibration: Annotated[str | None, typer.Option(help="A calibration file; else the card's.")] = None,
    facts_path: FactsOption = "",
    as_json: JsonOption = False,
) -> None:
    """Copy or cut: copies of what fits on one card, else the smallest group that does; and why."""
    use_facts(facts_path)
    judge = Judge(
        facts.model(model),
        facts.card(card),
        Load(prompt_tokens, output_tokens),
        interconnect=_joined(link, network, cards_per_node),
        weights=weights,
        kv=kv,
        max_num_batched_tokens=max_num_batched_tokens,
        gpu_memory_utilization=gpu_memory_utilization,
        memory_gb=memory_gb,
        calibration_file=calibration,
    )
    needs = Needs(concurrency, _seconds("tpot-ms", tpot_ms), _seconds("ttft-ms", ttft_ms))
    wanted = None if tp is None and pp is None else Layout(1 if tp is None else tp, 1 if pp is None else pp)
    choice = choose_layout(judge, needs, cards=cards, wanted=wanted)
    print_json(as_dict(judge, choice)) if as_json else _print(judge, choice)


def as_dict(judge: Judge, choice: Choice) -> dict[str, Any]:
    """Plain values, as `--json` prints them."""
    per_node = judge.interconnect.cards_per_node
    return {
        "model": judge.model.id,
        "card": judge.card.id,
        "weights": judge.weights,
        "kv": judge.kv,
        **_sizes(choice.layout),
        "cards": choice.layout.cards,
        "machines": choice.layout.machines(per_node),
        "fits": choice.fits,
        "reason": choice.reason,
        **_numbers(choice.candidate),
        "flags": choice.flags,
        "warnings": choice.warnings,
        "advice": choice.advice,
        "rejected": [_rejected(one) for one in choice.rejected],
        "load": {"prompt_tokens": judge.load.prompt_tokens, "output_tokens": judge.load.output_tokens},
        "link": judge.interconnect.link or judge.card.link,
        "network": judge.interconnect.network,
        "kind": "derived",
        "calibration": judge.calibration.name,
        "calibration_source": judge.calibration.source,
        "expected_error": judge.calibration.expected_error,
    }


def _sizes(layout: Layout) -> dict[str, int]:
    return {
        "tensor_parallel_size": layout.tensor_parallel,
        "pipeline_parallel_size": layout.pipeline_parallel,
        "data_parallel_size": layout.data_parallel,
    }


def _joined(link: str | None, network: str, cards_per_node: int) -> Interconnect:
    if not 1 <= cards_per_node <= MOST_CARDS_PER_NODE:
        raise KilocardError(f"--cards-per-node {cards_per_node}: give 1 to {MOST_CARDS_PER_NODE}")
    inside, beyond = None if link is None else facts.link(link).id, facts.link(network)
    if not beyond.between_machines:
        networks = ", ".join(name for name, row in facts.links().items() if row.between_machines)
        raise KilocardError(f"--network {network} joins the cards of a machine: name one of {networks}")
    return Interconnect(link=inside, network=beyond.id, cards_per_node=cards_per_node)


def _numbers(candidate: Candidate | None) -> dict[str, Any]:
    """What a layout holds and gives; nothing where it could not be judged."""
    if candidate is None:
        return {}
    speed, alone = candidate.speed, candidate.alone
    return {
        "weights_bytes_per_card": candidate.account.weights_bytes_per_rank,
        "kv_tokens": candidate.account.max_kv_tokens,
        "holds_requests": candidate.holds,
        "concurrency": speed.concurrency if speed else None,
        "ttft_s": speed.ttft_s if speed else None,
        "tpot_s": speed.tpot_s if speed else None,
        "tpot_alone_s": alone.tpot_s if alone else None,
        "output_tokens_per_s": speed.output_tokens_per_s if speed else None,
        "output_tokens_per_s_per_card": candidate.output_tokens_per_s_per_card if speed else None,
        "allreduces_s": candidate.wires_s if speed else None,
    }


def _rejected(one: Rejected) -> dict[str, Any]:
    return {**_sizes(one.layout), "fits": one.fits, "reason": one.reason, **_numbers(one.candidate)}


def _seconds(option: str, ms: float | None) -> float | None:
    if ms is not None and not 0 < ms < 1e9:
        raise KilocardError(f"--{option} {ms}: give milliseconds over 0 and under 10^9")
    return None if ms is None else ms / 1000


def _print(judge: Judge, choice: Choice) -> None:
    layout, candidate = choice.layout, choice.candidate
    verdict = "" if choice.fits else " (does not do)"
    pairs = [("layout", f"{layout}{verdict}: {layout.cards} cards"), ("why", choice.reason)]
    if candidate.speed and candidate.alone:
        speed = candidate.speed
        pairs += [
            (
                "gives",
                f"{speed.output_tokens_per_s:,.0f} tokens/s a replica, "
                f"{candidate.output_tokens_per_s_per_card:,.0f} a card, at {speed.concurrency} requests",
            ),
            (
                "latency",
                f"TPOT {speed.tpot_s * 1e3:.1f} ms there, {candidate.alone.tpot_s * 1e3:.1f} alone; "
                f"TTFT {speed.ttft_s * 1e3:,.0f} ms",
            ),
        ]
    pairs.append(("flags", " ".join(choice.flags)))
    pairs += [("warning", text) for text in choice.warnings] + [("try first", text) for text in choice.advice]
    pairs += [(f"not {one.layout}", one.reason) for one in choice.rejected]
    title = f"{judge.model.id} in {judge.weights} on {judge.card.id}, {judge.load.tokens} tokens a request:"
    print_pairs(title, pairs, [f"derived · {judge.calibration.source}"])
