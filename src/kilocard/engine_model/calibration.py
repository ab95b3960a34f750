"""A calibration: coefficients, where they come from, and how far their kind has been off."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

import kilocard
from kilocard.engine_model.coefficients import Coefficients
from kilocard.errors import KilocardError

Kind = Literal["run", "card", "datasheet"]
"""From a run of the same model, card and layout; shipped for the card; or neither."""

SHIPPED = Path(kilocard.__file__).resolve().parents[2] / "data" / "calibrations"
REFERENCE_CARD = "h100-sxm"
"""Whose coefficients stand in for a card that nobody has measured: shares of a datasheet carry over,
roughly."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Coefficients with their source; `expected_error` are median absolute errors that this kind has shown,
    as shares."""

    name: str
    kind: Kind
    coefficients: Coefficients
    source: str
    expected_error: dict[str, float] = field(default_factory=dict)


class _File(BaseModel):
    """A calibration as YAML holds it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    card: str
    kind: Kind
    source: str
    coefficients: dict[str, float]
    expected_error: dict[str, float] = {}
    model: str | None = None
    tensor_parallel_size: int | None = None


def calibration_for(card: str, file: str | None = None) -> Calibration:
    """The file's calibration, else the one shipped for the card, else the reference card's with the
    datasheet's error."""
    if file is not None:
        return read_calibration(Path(file))
    shipped = SHIPPED / f"{card}.yaml"
    if shipped.is_file():
        return read_calibration(shipped)
    reference = read_calibration(SHIPPED / f"{REFERENCE_CARD}.yaml")
    return Calibration(
        name=f"datasheet of {card}, shares of {REFERENCE_CARD}",
        kind="datasheet",
        coefficients=reference.coefficients,
        source=f"no measurement of {card}; efficiencies carried over from: {reference.source}",
        expected_error=DATASHEET_ERROR,
    )


DATASHEET_ERROR = {"e2e_s": 0.15, "ttft_s": 0.15}
"""A bound to plan with, unverified: no run on a card outside the fits has been at hand."""


def shown_from_one_run() -> dict[str, float]:
    """Median errors from one run to the others of the same model, card and layout."""
    with (SHIPPED / f"{REFERENCE_CARD}.errors.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["fit"] == "from one run"]
    shown = {}
    for metric in ("e2e_s", "ttft_s"):
        means = [row for row in rows if (row["metric"], row["statistic"]) == (metric, "mean")]
        shown[metric] = round(median(abs(float(row["error"])) for row in means), 3)
    return shown


def read_calibration(path: Path) -> Calibration:
    """A calibration file; a fault in one line."""
    try:
        raw = _File.model_validate(yaml.safe_load(path.expanduser().read_text(encoding="utf-8")))
        coefficients = Coefficients(**raw.coefficients)
    except (OSError, yaml.YAMLError, TypeError, ValueError, RecursionError, KilocardError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise KilocardError(
            f"{path} is no calibration: {reason}; `kilocard calibrate --out` writes one"
        ) from error
    return Calibration(path.stem, raw.kind, coefficients, raw.source, raw.expected_error)


def write_calibration(path: Path, card: str, calibration: Calibration, **about: Any) -> None:
    """Write a calibration that `read_calibration` reads."""
    content = {
        "card": card,
        "kind": calibration.kind,
        "source": calibration.source,
        "coefficients": calibration.coefficients.as_dict(),
        "expected_error": dict(calibration.expected_error),
        **about,
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
