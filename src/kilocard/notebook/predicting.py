"""A sweep predicted from part of itself, beside what was measured."""

from __future__ import annotations

import re

import pandas as pd

from kilocard.fleet.observation import Observation
from kilocard.notebook import style
from kilocard.notebook.figures.sweep import Sweep
from kilocard.record import Kind, Run
from kilocard.stats import StageSummary, summarise

METRICS = ("ttft_s", "tpot_s", "output_tokens_per_s")


def predicted_sweep(observation: Observation, told: pd.DataFrame, name: str) -> Sweep:
    """The predicted levels, as a sweep to draw beside the measured one."""
    by_stage = told.pivot(index="stage", columns="metric", values="predicted")
    return Sweep(
        name,
        [float(_concurrency(observation, stage)) for stage in by_stage.index],
        by_stage["output_tokens_per_s"].tolist(),
        by_stage["tpot_s"].tolist(),
        Kind.SIMULATED,
        style.PREFILL,
    )


def levels_table(observation: Observation, told: pd.DataFrame) -> list[tuple[object, ...]]:
    """One row a level: measured TTFT, TPOT and throughput, and the error of each prediction in per cent."""
    measured = told.pivot(index="stage", columns="metric", values="measured")
    error = 100 * told.pivot(index="stage", columns="metric", values="error")
    unit = {"ttft_s": 1.0, "tpot_s": 1000.0, "output_tokens_per_s": 1.0}
    return [
        (
            _concurrency(observation, stage),
            *(
                cell
                for metric in METRICS
                for cell in (
                    unit[metric] * float(measured[metric][stage]),
                    round(float(error[metric][stage]), 1),
                )
            ),
        )
        for stage in measured.index
    ]


def short_name(run: str) -> str:
    """What tells a published run from its siblings: its layout and its load."""
    found = re.search(r"tp(\d+)-([a-z]+)", run)
    return f"TP {found[1]}, {found[2]}" if found else run


def run_to_run(first: Run, second: Run) -> dict[str, float]:
    """How far two measurements of the same levels are apart at most, as a share of their mean."""
    one, other = _by_level(first), _by_level(second)
    shared = sorted(one.keys() & other.keys())
    return {
        metric: max(
            2 * abs(a - b) / (a + b) for a, b in ((one[at][metric], other[at][metric]) for at in shared)
        )
        for metric in METRICS
    }


def _by_level(run: Run) -> dict[int, dict[str, float]]:
    return {level.concurrency: _numbers(level) for level in summarise(run) if level.concurrency is not None}


def _numbers(level: StageSummary) -> dict[str, float]:
    values = (level.ttft_s.p50, level.tpot_s.p50, level.output_tokens_per_s)
    return {metric: value or float("nan") for metric, value in zip(METRICS, values, strict=True)}


def _concurrency(observation: Observation, stage: int) -> int:
    return observation.case.workload.all_stages[int(stage)].concurrency or 0
