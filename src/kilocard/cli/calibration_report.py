"""What `kilocard calibrate` does between reading and printing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kilocard.engine_model.calibrate import PRIOR_SPREAD, WIDE_SPREAD
from kilocard.engine_model.calibration import (
    Calibration,
    calibration_for,
    shown_from_one_run,
    write_calibration,
)
from kilocard.errors import KilocardError
from kilocard.fleet.calibrating import calibrate_run
from kilocard.fleet.measured import observation_of_case, observation_of_run
from kilocard.fleet.observation import Observation
from kilocard.record import Run
from kilocard.specs import read_case


def calibration_of(source: Path, measured: str, card: str, levels: str, out: Path | None) -> dict[str, Any]:
    """Fit, write where asked, and tell every error."""
    fitted, whole = _observations(source, measured, card, levels)
    prior = calibration_for(str(whole.case.card), whole.case.calibration)
    spread = WIDE_SPREAD if prior.kind == "datasheet" else PRIOR_SPREAD
    found = calibrate_run([fitted], prior.coefficients, spread).coefficients
    predicted = whole.predict(found)
    shown = shown_from_one_run()
    about = (
        f"{source.name}: {whole.case.model} on {whole.case.engine.tensor_parallel_size} x {whole.case.card}"
    )
    calibration = Calibration(out.stem if out else source.stem, "run", found, about, shown)
    if out:
        write_calibration(
            out,
            str(whole.case.card),
            calibration,
            model=whole.case.model,
            tensor_parallel_size=whole.case.engine.tensor_parallel_size,
        )
    rows = [
        {
            "what": value.label,
            "fitted": value in fitted.values,
            "measured": value.measured,
            "predicted": float(number),
            "error": float(number / value.measured - 1),
        }
        for value, number in zip(whole.values, predicted, strict=True)
    ]
    return {
        "source": about,
        "kind": "run",
        "coefficients": found.as_dict(),
        "rows": rows,
        "expected_error": shown,
    }


def _observations(source: Path, measured: str, card: str, levels: str) -> tuple[Observation, Observation]:
    """What to fit, and all there is."""
    if source.suffix != ".parquet":
        whole = observation_of_case(read_case(source), measured)
        return whole, whole
    run = Run.read(source)
    whole = observation_of_run(run, card)
    if not levels:
        return whole, whole
    return observation_of_run(run, card, stages=_stages(run, levels)), whole


def _stages(run: Run, levels: str) -> list[int]:
    """The stages of the named concurrencies."""
    stages = run.stamp.workload.get("stages", {})
    known = {str(stages.get(str(number), {}).get("concurrency")): number for number in run.stages}
    wanted = [level.strip() for level in levels.split(",")]
    if missing := [level for level in wanted if level not in known]:
        raise KilocardError(
            f"--levels {levels}: the run has no level {', '.join(missing)}; it has {', '.join(known)}"
        )
    return [known[level] for level in wanted]
