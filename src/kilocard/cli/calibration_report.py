"""What `kilocard calibrate` does between reading and printing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kilocard.cli.load_options import numbers_of
from kilocard.engine_model.calibrate import PRIOR_SPREAD, WIDE_SPREAD
from kilocard.engine_model.calibration import (
    DATASHEET_ERROR,
    Calibration,
    calibration_of_case,
    require_place,
    shown_from_one_run,
    write_calibration,
)
from kilocard.engine_model.coefficients import Coefficients
from kilocard.errors import KilocardError
from kilocard.fleet.calibrating import (
    CHECK,
    calibrate_run,
    no_less_than_seen,
    require_near,
    require_predictable,
)
from kilocard.fleet.given import observation_of_case
from kilocard.fleet.measured import observation_of_run, require_usable
from kilocard.fleet.observation import WHOLE_RUN, Observation, Value, level_name
from kilocard.record import Kind, Run, Stamp
from kilocard.specs import read_case

FAR = 50
"""A share under a 50th, or over the whole, of the datasheet's; a time of 50 times the usual."""


@dataclass(frozen=True, slots=True)
class Brought:
    """What a user brings: what to fit, all there is, how it came to be, and what is to be said of it."""

    fitted: Observation
    whole: Observation
    made_by: str = ""
    kind: Kind | None = None
    notes: tuple[str, ...] = ()


def calibration_of(source: Path, measured: str, card: str, levels: str, out: Path | None) -> dict[str, Any]:
    """Fit, write where asked, and tell every error."""
    if out:
        require_place(out)
    brought = _of_run(source, card, levels) if source.suffix == ".parquet" else _of_case(source, measured)
    fitted, case = brought.fitted, brought.whole.case
    prior = calibration_of_case(case)
    require_predictable(brought.whole, prior.coefficients)
    spread = WIDE_SPREAD if prior.kind == "datasheet" else PRIOR_SPREAD
    fit = calibrate_run([fitted], prior.coefficients, spread)
    require_near(fitted, fit.errors)
    rows = _rows(brought, fit.coefficients)
    about = (
        f"{source.name}: {case.model} on {case.engine.tensor_parallel_size} x {case.card}{brought.made_by}"
    )
    far = _far_from_engines(fit.coefficients)
    shown = _error(brought, rows, shown_from_one_run() | (DATASHEET_ERROR if far else {}))
    name = out.stem if out else source.stem
    calibration = Calibration(name, "run", fit.coefficients, about, shown)
    if out:
        write_calibration(
            out,
            str(case.card),
            calibration,
            model=case.model,
            weights=case.weights,
            tensor_parallel_size=case.engine.tensor_parallel_size,
        )
    return {
        "source": about,
        "kind": "run",
        "run_kind": brought.kind,
        "coefficients": fit.coefficients.as_dict(),
        "rows": rows,
        "expected_error": calibration.expected_error,
        "notes": [*brought.notes, *far],
    }


def _rows(brought: Brought, found: Coefficients) -> list[dict[str, Any]]:
    predicted = brought.whole.predict(found)
    return [
        {
            "what": brought.whole.label(value),
            **_place(brought.whole, value),
            "fitted": value in brought.fitted.values,
            "measured": value.measured,
            "predicted": float(number),
            "error": float(number / value.measured - 1),
        }
        for value, number in zip(brought.whole.values, predicted, strict=True)
    ]


def _place(whole: Observation, value: Value) -> dict[str, Any]:
    """Of which stage a value is, and what that stage's load was."""
    level = whole.level(value.stage)
    return {
        "stage": None if value.stage == WHOLE_RUN else value.stage,
        "concurrency": level.concurrency if level else None,
        "rate_per_s": level.rate_per_s if level else None,
    }


def _error(brought: Brought, rows: list[dict[str, Any]], promised: dict[str, float]) -> dict[str, float]:
    """What such calibrations have shown, and no less than this one shows on either part of the values."""
    for part in (True, False):
        chosen = [place for place, row in enumerate(rows) if row["fitted"] is part]
        values = [brought.whole.values[place] for place in chosen]
        promised = no_less_than_seen(promised, values, np.array([rows[place]["error"] for place in chosen]))
    return promised


def _far_from_engines(found: Coefficients) -> list[str]:
    """A note on shares and times that fit the numbers, but that no engine has shown on its own card."""
    usual = Coefficients().as_dict()
    far = [
        f"{name} {value:.3g}"
        for name, value in found.as_dict().items()
        if (value > FAR * usual[name] if name.endswith("_s") else not 1 / FAR <= value <= 1)
    ]
    return [f"far from what engines show ({', '.join(far)}): {CHECK}"] if far else []


def _of_case(source: Path, measured: str) -> Brought:
    whole = observation_of_case(read_case(source), measured)
    return Brought(whole, whole)


def _of_run(source: Path, card: str, levels: str) -> Brought:
    run = Run.read(source)
    stages = _stages(run, levels) if levels else None
    notes = require_usable(run, card, stages)
    whole = observation_of_run(run, card)
    fitted = observation_of_run(run, card, stages=stages) if stages else whole
    made_by = _made_by(run.stamp) + (f", fitted to its levels {levels}" if stages else "")
    return Brought(fitted, whole, made_by, run.stamp.kind, (*notes, *_too_thin(run, whole)))


def _too_thin(run: Run, whole: Observation) -> list[str]:
    """Levels of which no median is told, in words."""
    told = {value.stage for value in whole.values}
    thin = [level_name(level) for stage in run.stages if stage not in told and (level := whole.level(stage))]
    return (
        [f"{', '.join(thin)}: fewer than 10 requests that ended well, so they do not count"] if thin else []
    )


def _made_by(stamp: Stamp) -> str:
    """Who made a run that nobody measured: no kind passes for another."""
    if stamp.kind is Kind.MEASURED:
        return ""
    return f", {stamp.kind.value} by {stamp.engine} {stamp.engine_version}".rstrip()


def _stages(run: Run, levels: str) -> list[int]:
    """The stages of the named concurrencies."""
    told, known = run.stamp.workload.get("stages", {}), dict[int, list[int]]()
    for number in run.stages:
        if concurrency := told.get(str(number), {}).get("concurrency"):
            known.setdefault(int(concurrency), []).append(number)
    if not known:
        raise KilocardError(
            f"--levels {levels}: the run is an open loop, without concurrencies; leave it out"
        )
    wanted = numbers_of(levels, int, "--levels")
    if missing := [str(level) for level in wanted if level not in known]:
        there = ", ".join(map(str, known))
        raise KilocardError(f"--levels {levels}: the run has no level {', '.join(missing)}; it has {there}")
    return sorted({number for level in wanted for number in known[level]})
