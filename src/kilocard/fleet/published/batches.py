"""Prompt and token times of batches (Splitwise, ISCA 2024): one step each, no scheduler between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kilocard.engine_model.coefficients import Coefficients
from kilocard.engine_model.step_time import step_time
from kilocard.errors import KilocardError

BATCHES = "splitwise_llama2_70b.csv"
SOURCE = "Splitwise (Patel et al., ISCA 2024), batches of Llama-2-70B on A100 and H100, TP 2 and 4"
MODELS = {"llama2-70b": "llama-2-70b", "bloom-176b": "bloom-176b"}
CARDS = {"a100-80gb": "a100-sxm-80gb", "h100-80gb": "h100-sxm"}
COUNTS = ["tensor_parallel", "prompt_size", "batch_size", "token_size"]
KEYS = ["model", "hardware", *COUNTS]
TIMES = ["prompt_time", "token_time"]
MOST = 1e9


@dataclass(frozen=True, slots=True)
class Batch:
    """The median of equal batches: what was asked, and the seconds of its prompt step and of a token's
    step."""

    model: str
    card: str
    tensor_parallel: int
    prompt_tokens: int
    sequences: int
    output_tokens: int
    prompt_s: float
    token_s: float


def batch_rows(folder: Path) -> list[Batch]:
    """The batches of the published table."""
    return batches_in(folder / BATCHES)


def batches_in(path: Path) -> list[Batch]:
    """The batches of a table of this form, one a kind. Left out: TP 2 at 64 sequences, whose prompt times
    contradict those of 32, repeats of one prompt with other lengths of answer, and cards with a power cap."""
    table = _read(path)
    if missing := {*KEYS, *TIMES} - set(table.columns):
        raise KilocardError(f"{path.name} lacks the columns {', '.join(sorted(missing))}")
    table = table[table["hardware"].isin(CARDS) & table["model"].isin(MODELS)]
    if table.empty:
        raise KilocardError(f"{path.name} has no row of {', '.join(MODELS)} on {', '.join(CARDS)}")
    table = table.assign(**{column: _numbers(table, column, path.name) for column in (*COUNTS, *TIMES)})
    medians = table.groupby(KEYS)[TIMES].median().reset_index()
    odd = (medians["tensor_parallel"] == 2) & (medians["batch_size"] == 64)
    repeats = (medians["batch_size"] == 1) & (medians["prompt_size"] == 512) & (medians["token_size"] > 256)
    return [
        Batch(
            model=MODELS[row["model"]],
            card=CARDS[row["hardware"]],
            tensor_parallel=int(row["tensor_parallel"]),
            prompt_tokens=int(row["prompt_size"]),
            sequences=int(row["batch_size"]),
            output_tokens=int(row["token_size"]),
            prompt_s=float(row["prompt_time"]) / 1000,
            token_s=float(row["token_time"]) / 1000,
        )
        for _, row in medians[~odd & ~repeats].iterrows()
    ]


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except ValueError as error:
        why = " ".join(str(error).split())[:120]
        raise KilocardError(f"{path.name} is no table ({why}): give a CSV file with a header") from error


def _numbers(table: pd.DataFrame, column: str, name: str) -> pd.Series[float]:
    """A column as numbers over 0, counts whole; else its first cell that is none, by its line."""
    numbers = pd.to_numeric(table[column], errors="coerce").astype(float)
    right = (numbers > 0) & (numbers <= MOST) & ((numbers % 1 == 0) | (column in TIMES))
    for row in table.index[~right]:
        kind = "ms over 0" if column in TIMES else "whole numbers from 1"
        raise KilocardError(f"{name}, row {row + 1}: {column} {table[column][row]!s:.40}: give {kind}")
    return numbers


def measured_batches(batches: Sequence[Batch]) -> NDArray[np.float64]:
    """Prompt times, then token times."""
    return np.array([batch.prompt_s for batch in batches] + [batch.token_s for batch in batches])


def predict_batches(batches: Sequence[Batch], coefficients: Coefficients) -> NDArray[np.float64]:
    """The same from the step time: a prompt step of the whole batch, and a decode step at half its answer."""
    largest = max(batch.prompt_tokens * batch.sequences for batch in batches)
    prompts, tokens = [], []
    for batch in batches:
        steps = step_time(
            batch.model,
            batch.card,
            tp=batch.tensor_parallel,
            max_num_batched_tokens=largest,
            coefficients=coefficients,
        )
        count, asked = batch.sequences, batch.sequences * batch.prompt_tokens
        pairs = count * batch.prompt_tokens * (batch.prompt_tokens + 1) / 2
        prompts.append(steps.step_s(asked, asked, count, pairs))
        tokens.append(steps.step_s(count, asked + count * batch.output_tokens / 2, count))
    return np.array(prompts + tokens)
