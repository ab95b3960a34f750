"""Tensor-parallel degrees beside each other: as the simulator has them, as others measured them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from kilocard.fleet.degrees import HALVES, Judged, medians, shipped_errors
from kilocard.layout import Judge, Speed
from kilocard.layout.candidate import MOST_SEQUENCES
from kilocard.notebook.layouts import simulated
from kilocard.notebook.records import PUBLISHED
from kilocard.parallel.layout import Layout

DEGREES = (1, 2, 4, 8)
SMALL_MODELS = PUBLISHED / "tensor_parallel_small_models.csv"
LAMBDA = "LambdaLabsML/vllm-benchmark, 2024: vLLM 0.5.4, NVLink, 320 prompts"


def full(judge: Judge, degree: int) -> Speed | None:
    """A group simulated with as many requests as it holds, up to vLLM's 256; None where it holds none."""
    holds = judge.account(Layout(degree)).max_concurrency
    return simulated(judge, Layout(degree), min(holds, MOST_SEQUENCES)) if holds else None


def a_card_earns(judge: Judge, degrees: Sequence[int] = DEGREES) -> dict[int, float]:
    """Tokens/s a card by degree, each group full; those that hold nothing are left out."""
    speeds = {degree: full(judge, degree) for degree in degrees if not judge.obstacle(degree)}
    return {degree: speed.output_tokens_per_s / degree for degree, speed in speeds.items() if speed}


@dataclass(frozen=True, slots=True)
class Cut:
    """TP 2 over one card: tokens/s a card with few requests and full, TPOT and TTFT of one request alone."""

    where: str
    few: float | None
    full: float | None
    tpot: float
    ttft: float | None


def cut_in_two(judge: Judge, where: str, a_card: int = 8) -> Cut:
    """Ratios, TP 2 ÷ one card; with few requests each card has as many, 8, in both layouts."""
    one, two = Layout(1), Layout(2)
    steps = {layout: judge.step(layout) for layout in (one, two)}
    few = [
        judge.speed(steps[layout], layout, a_card * layout.tensor_parallel).output_tokens_per_s
        / layout.tensor_parallel
        for layout in (one, two)
    ]
    alone = [judge.speed(steps[layout], layout, 1) for layout in (one, two)]
    earns = a_card_earns(judge, (1, 2))
    return Cut(
        where,
        few[1] / few[0],
        earns[2] / earns[1],
        alone[1].tpot_s / alone[0].tpot_s,
        alone[1].ttft_s / alone[0].ttft_s,
    )


def published_cuts() -> Iterator[Cut]:
    """The same of small models, as somebody else measured them."""
    table = pd.read_csv(SMALL_MODELS)
    for (model, card), rows in table.groupby(["model", "card"], sort=False):
        by_degree = rows.set_index("tensor_parallel")
        rates, itl_ms = by_degree["output_tokens_per_s"], by_degree["itl_ms"]
        each = float(rates.loc[2]) / float(rates.loc[1]) / 2
        yield Cut(f"{model} on {card}", None, each, float(itl_ms.loc[2]) / float(itl_ms.loc[1]), None)


def judged_degrees() -> list[tuple[str, int, dict[str, float]]]:
    """How near the step time came to published batches that it was not fitted to, by split and degree."""
    rows = shipped_errors()
    parts: list[tuple[str, list[Judged]]] = [
        ("half of the batches", [row for row in rows if row.fitted_on in HALVES])
    ]
    parts += [(f"all at {name}", [row for row in rows if row.fitted_on == name]) for name in ("TP 2", "TP 4")]
    return [
        (name, degree, medians(chosen))
        for name, part in parts
        for degree in (2, 4)
        if (chosen := [row for row in part if row.tensor_parallel == degree])
    ]
