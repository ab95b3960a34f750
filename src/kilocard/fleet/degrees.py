"""The tensor-parallel curve: the step time fitted to some published batches, and judged by the others."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kilocard.engine_model.calibration import SHIPPED
from kilocard.engine_model.coefficients import Coefficients
from kilocard.fleet.published.batches import Batch, batch_rows, batches_in, measured_batches, predict_batches
from kilocard.fleet.shipped import BATCH_PRIOR, HOST, LINKS, SHARES, fit_batch_steps, fit_batches

SPLITS: dict[str, Callable[[int, Batch], bool]] = {
    "every other batch": lambda number, batch: number % 2 == 0,
    "the others": lambda number, batch: number % 2 == 1,
    "TP 2": lambda number, batch: batch.tensor_parallel == 2,
    "TP 4": lambda number, batch: batch.tensor_parallel == 4,
}
"""What a fit sees; it is judged by the rest of the same card's batches."""

HALVES = ("every other batch", "the others")
ALL = "all at TP 2 and 4"
ERRORS = SHIPPED / "tensor-parallel.errors.csv"
"""Our errors on those batches, without the batches' times."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A batch that a fit had not seen: predicted ÷ measured − 1 of its prompt's step and of a token's."""

    fitted_on: str
    model: str
    card: str
    tensor_parallel: int
    prompt_tokens: int
    sequences: int
    prompt_error: float
    token_error: float


def judged_by_splits(folder: Path, splits: Sequence[str] = tuple(SPLITS)) -> list[Judged]:
    """Each card's batches, every way that they are split."""
    batches, rows = batch_rows(folder), []
    for card in dict.fromkeys(batch.card for batch in batches):
        of_card = [batch for batch in batches if batch.card == card]
        for name in splits:
            is_seen = SPLITS[name]
            seen = [batch for number, batch in enumerate(of_card) if is_seen(number, batch)]
            unseen = [batch for number, batch in enumerate(of_card) if not is_seen(number, batch)]
            found = fit_batch_steps(seen, BATCH_PRIOR, (*SHARES, *LINKS, *HOST)).coefficients
            rows += list(judge(unseen, found, name))
    return rows


def judged_by_others(folder: Path, path: Path) -> list[Judged]:
    """Batches of another table, other degrees and models too, by the fit of all of the published one."""
    fits = fit_batches(folder)
    rows: list[Judged] = []
    for batch in batches_in(path):
        rows += judge([batch], fits[batch.card].coefficients, ALL)
    return rows


def judge(batches: Sequence[Batch], coefficients: Coefficients, fitted_on: str) -> Iterator[Judged]:
    """Errors, batch by batch."""
    errors = predict_batches(batches, coefficients) / measured_batches(batches) - 1
    for number, batch in enumerate(batches):
        yield Judged(
            fitted_on=fitted_on,
            model=batch.model,
            card=batch.card,
            tensor_parallel=batch.tensor_parallel,
            prompt_tokens=batch.prompt_tokens,
            sequences=batch.sequences,
            prompt_error=float(errors[number]),
            token_error=float(errors[len(batches) + number]),
        )


def shipped_errors() -> list[Judged]:
    """What `benchmarks/tensor_parallel.py --ship` wrote."""
    with ERRORS.open(encoding="utf-8", newline="") as file:
        return [
            Judged(
                row["fitted_on"],
                row["model"],
                row["card"],
                *(int(row[name]) for name in ("tensor_parallel", "prompt_tokens", "sequences")),
                *(float(row[name]) for name in ("prompt_error", "token_error")),
            )
            for row in csv.DictReader(file)
        ]


def medians(rows: Sequence[Judged]) -> dict[str, float]:
    """Median absolute errors as shares, what nine of ten stay under, and how many there are."""
    found: dict[str, float] = {"batches": len(rows)}
    for what in ("prompt", "token"):
        missed = np.abs([getattr(row, f"{what}_error") for row in rows])
        found |= {f"{what}_median": float(np.median(missed)), f"{what}_p90": float(np.quantile(missed, 0.9))}
    return found
