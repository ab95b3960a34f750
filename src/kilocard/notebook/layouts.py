"""Layouts by name, as the chapters ask for them."""

from __future__ import annotations

from typing import Any

from kilocard import facts
from kilocard.fleet import simulate_case
from kilocard.layout import Judge, Load, Speed
from kilocard.parallel.layout import Layout
from kilocard.specs import case_from
from kilocard.specs.interconnect import Interconnect

CHAT = Load(prompt_tokens=1536, output_tokens=512)
ROUNDS = 6


def judge(
    model: str,
    card: str,
    weights: str = "bf16",
    *,
    load: Load = CHAT,
    link: str | None = None,
    network: str | None = None,
    cards_per_node: int = 8,
) -> Judge:
    """Who judges layouts of that model on such cards, for requests of that load."""
    joined = {"link": link, "cards_per_node": cards_per_node} | ({"network": network} if network else {})
    wires = Interconnect.model_validate(joined)
    return Judge(facts.model(model), facts.card(card), load, wires, weights)


def simulated(judge: Judge, layout: Layout, concurrency: int) -> Speed:
    """The same layout in the simulator: a closed loop of requests whose answers differ in length."""
    answers = {"kind": "lognormal", "mean_tokens": judge.load.output_tokens, "cv": 0.5}
    case: dict[str, Any] = {
        "model": judge.model.id,
        "card": judge.card.id,
        "weights": judge.weights,
        "kv": judge.kv,
        "engine": {
            "tensor_parallel_size": layout.tensor_parallel,
            "pipeline_parallel_size": layout.pipeline_parallel,
            "max_num_batched_tokens": judge.max_num_batched_tokens,
        },
        "interconnect": judge.interconnect.model_dump(),
        "workload": {
            "stages": [{"concurrency": concurrency, "requests": (ROUNDS + 4) * concurrency}],
            "prompt_tokens": judge.load.prompt_tokens,
            "output_tokens": {**answers, "most_tokens": 4 * judge.load.output_tokens},
        },
    }
    run, _ = simulate_case(case_from(case, "the layout"))
    rows = run.ok.iloc[2 * concurrency : -2 * concurrency]
    first_s, last_s = rows["first_token_s"], rows["last_token_s"]
    tokens, stay_s = rows["output_tokens"], last_s - rows["sent_s"]
    return Speed(
        concurrency=concurrency,
        ttft_s=float((first_s - rows["sent_s"]).mean()),
        tpot_s=float(((last_s - first_s) / (tokens - 1)).mean()),
        output_tokens_per_s=concurrency * float(tokens.mean()) / float(stay_s.mean()),
    )
