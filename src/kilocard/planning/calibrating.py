"""An engine model that gives what a baseline gave: coefficients fitted to its levels, in closed form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.calibrate import PRIOR_SPREAD, WIDE_SPREAD, fit
from kilocard.engine_model.calibration import Calibration, write_calibration
from kilocard.engine_model.coefficients import Coefficients
from kilocard.engine_model.step_time import step_time
from kilocard.layout import Judge, speed_at
from kilocard.parallel.layout import Layout
from kilocard.planning.baseline import Baseline, Level

NOISE, FOLLOWED = 0.05, 0.01
"""What a level may be off; and the one that the plan counts on."""


def calibrated(baseline: Baseline, judge: Judge, counted_on: Level) -> tuple[Calibration, tuple[float, ...]]:
    """Coefficients for the card that the baseline ran on, and how far each level's TPOT is off afterwards.

    The level that the plan counts on is followed closest. Of a table that tells little (mean TPOT at a few
    loads) the fit is as good as the closed form; a run is better given to `kilocard calibrate`.
    """
    prior = judge.calibration
    measured = np.array([value for level in baseline.levels for value in _values(level.tpot_s, level.ttft_s)])
    noise = [FOLLOWED if level == counted_on else NOISE for level in baseline.levels]
    every = [
        share for level, share in zip(baseline.levels, noise, strict=True) for _ in _values(0, level.ttft_s)
    ]
    spread = WIDE_SPREAD if prior.kind == "datasheet" else PRIOR_SPREAD
    found = fit(
        lambda at: _predicted(baseline, judge, at),
        measured,
        prior.coefficients,
        spread=spread,
        noise=np.array(every),
    )
    tpots = [k for k, kind in enumerate(_kinds(baseline)) if kind == "tpot"]
    errors = tuple(float(found.errors[k]) for k in tpots)
    return (
        Calibration(
            name=f"fitted to {baseline.source}",
            kind="run",
            coefficients=found.coefficients,
            source=f"fitted in closed form to {baseline.source} ({baseline.kind.value})",
            expected_error={"tpot_s": round(float(np.max(np.abs(errors))), 3)},
            card=str(judge.card),
            model=judge.model.id,
            weights=judge.weights,
            tensor_parallel_size=baseline.cards,
        ),
        errors,
    )


def keep_calibration(path: Path, calibration: Calibration) -> str:
    """Write it where simulations find it; returns the place."""
    write_calibration(
        path,
        str(calibration.card),
        calibration,
        model=calibration.model,
        weights=calibration.weights,
        tensor_parallel_size=calibration.tensor_parallel_size,
    )
    return str(path)


def _values(tpot_s: float, ttft_s: float | None) -> list[float]:
    return [tpot_s] if ttft_s is None else [tpot_s, ttft_s]


def _kinds(baseline: Baseline) -> list[str]:
    return [
        kind
        for level in baseline.levels
        for kind in (("tpot",) if level.ttft_s is None else ("tpot", "ttft"))
    ]


def _predicted(baseline: Baseline, judge: Judge, coefficients: Coefficients) -> NDArray[np.float64]:
    step = step_time(
        judge.model,
        judge.card,
        weights=judge.weights,
        kv=judge.kv,
        tp=Layout(baseline.cards).tensor_parallel,
        interconnect=judge.interconnect,
        max_num_batched_tokens=judge.max_num_batched_tokens,
        coefficients=coefficients,
    )
    predicted: list[float] = []
    for level in baseline.levels:
        speed = speed_at(step, judge.load, max(1, round(level.concurrency)), request_s=coefficients.request_s)
        predicted += _values(speed.tpot_s, None if level.ttft_s is None else speed.ttft_s)
    return np.array(predicted)
