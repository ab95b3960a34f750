"""A calibration: coefficients, where they come from, and how far their kind has been off."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

import kilocard
from kilocard import facts
from kilocard.engine_model.coefficients import Coefficients
from kilocard.errors import KilocardError, near_match
from kilocard.facts.card import Card
from kilocard.facts.yaml_rows import RowLoader, id_of
from kilocard.parallel.fabric import carried_over_link
from kilocard.specs import Case
from kilocard.specs.text_file import read_short, require_writable, write_whole

Kind = Literal["run", "card", "datasheet"]
"""From a run of the same model, card and layout; shipped for the card; or neither."""

SHIPPED = Path(kilocard.__file__).resolve().parents[2] / "data" / "calibrations"
REFERENCE_CARD = "h100-sxm"
"""Whose coefficients stand in for a card that nobody has measured: shares of a datasheet carry over,
roughly."""

DATASHEET_ERROR = {"e2e_s": 0.15, "ttft_s": 0.15}
"""A bound to plan with, unverified: no run on a card outside the fits has been at hand."""

_UNREADABLE = (OSError, yaml.YAMLError, TypeError, ValueError, LookupError, ArithmeticError)
"""What a file of an unforeseen shape may raise."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Coefficients with their source; `expected_error` are median absolute errors that this kind has shown,
    as shares. What was run is null where many models were, or where nobody says."""

    name: str
    kind: Kind
    coefficients: Coefficients
    source: str
    expected_error: dict[str, float] = field(default_factory=dict)
    card: str | None = None
    model: str | None = None
    weights: str | None = None
    tensor_parallel_size: int | None = None


class _File(BaseModel):
    """A calibration as YAML holds it."""

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())

    card: str
    kind: Kind
    source: str
    coefficients: dict[str, float]
    expected_error: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = {}
    model: str | None = None
    weights: str | None = None
    tensor_parallel_size: PositiveInt | None = None


def calibration_of_case(case: Case) -> Calibration:
    """The calibration that a case names, else its card's; with the error to expect of this case."""
    return calibration_for(
        case.card,
        case.calibration,
        model=case.model,
        weights=case.weights,
        tensor_parallel_size=case.engine.tensor_parallel_size,
    )


def calibration_for(
    card: Card | str,
    file: str | None = None,
    *,
    model: str | None = None,
    weights: str | None = None,
    tensor_parallel_size: int | None = None,
) -> Calibration:
    """The file's calibration, else the one shipped for the card, else the reference card's with the
    datasheet's error. Where it was made of something else than is named, it says so and promises less."""
    shipped = SHIPPED / f"{card}.yaml"
    if file is not None:
        found = read_calibration(Path(file))
    elif shipped.is_file():
        found = read_calibration(shipped)
    else:
        return _from_reference(card)
    if found.card is not None and id_of(found.card) != id_of(str(card)):
        return _on_another_card(found, card)
    changes = _changes(found, model, weights, tensor_parallel_size) if found.kind == "run" else []
    return _of_another_run(found, changes) if changes else found


def _from_reference(card: Card | str) -> Calibration:
    reference = read_calibration(SHIPPED / f"{REFERENCE_CARD}.yaml")
    coefficients = carried_to_card(reference.coefficients, REFERENCE_CARD, card)
    return Calibration(
        name=f"datasheet of {card}, shares of {REFERENCE_CARD}",
        kind="datasheet",
        coefficients=coefficients,
        source=f"no measurement of {card}; efficiencies carried over from: {reference.source}",
        expected_error=DATASHEET_ERROR,
        card=str(card),
    )


def carried_to_card(found: Coefficients, own: Card | str, other: Card | str) -> Coefficients:
    """Shares of a datasheet stay what they are; those of the link follow the links of the two cards."""
    try:
        ours, theirs = (facts.link(facts.card(card).link) for card in (own, other))
    except KilocardError:
        return found  # a card by a name of its own has no link that anybody knows
    start_s, share = carried_over_link((found.allreduce_s, found.link_efficiency), ours, theirs)
    return found.with_(allreduce_s=start_s, link_efficiency=share)


def _on_another_card(found: Calibration, card: Card | str) -> Calibration:
    return replace(
        found,
        coefficients=carried_to_card(found.coefficients, str(found.card), card),
        name=f"{found.name}, shares of {found.card} on the datasheet of {card}",
        kind="datasheet",
        source=f"no measurement of {card}; efficiencies carried over from: {found.source}",
        expected_error=_at_least(DATASHEET_ERROR, found),
    )


def _of_another_run(found: Calibration, changes: list[str]) -> Calibration:
    note = f"used for {', '.join(changes)}"
    card = read_calibration(SHIPPED / f"{REFERENCE_CARD}.yaml")
    return replace(
        found,
        name=f"{found.name}, {note}",
        kind="card",
        source=f"{found.source}; {note}",
        expected_error=_at_least(card.expected_error, found),
    )


def _at_least(shown: Mapping[str, float], found: Calibration) -> dict[str, float]:
    """What another kind has shown, and no less than what this one has."""
    return {metric: max(error, found.expected_error.get(metric, 0.0)) for metric, error in shown.items()}


def _changes(
    found: Calibration, model: str | None, weights: str | None, tensor_parallel_size: int | None
) -> list[str]:
    """In what a use differs from the run, in words."""
    changes = []
    if model and found.model and _model_id(model) != _model_id(found.model):
        changes.append(f"{model} instead of {found.model}")
    if weights and found.weights and weights != found.weights:
        changes.append(f"{weights} instead of {found.weights} weights")
    if tensor_parallel_size and found.tensor_parallel_size not in (None, tensor_parallel_size):
        changes.append(f"TP {tensor_parallel_size} instead of {found.tensor_parallel_size}")
    return changes


def _model_id(name: str) -> str:
    """One spelling of a model's name, whether or not this catalogue has it."""
    try:
        return facts.model(name).id
    except KilocardError:
        return id_of(name)


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
        raw = _File.model_validate(yaml.load(read_short(path), Loader=RowLoader))
        coefficients = _coefficients(raw.coefficients)
    except (*_UNREADABLE, RuntimeError, KilocardError) as error:
        raise KilocardError(
            f"{path} is no calibration: {_reason(error)}; `kilocard calibrate --out` writes one"
        ) from error
    about = raw.model_dump(include={"card", "model", "weights", "tensor_parallel_size"})
    return Calibration(path.stem, raw.kind, coefficients, raw.source, raw.expected_error, **about)


def _coefficients(given: Mapping[str, float]) -> Coefficients:
    names = [item.name for item in fields(Coefficients)]
    for name in given:
        if name not in names:
            raise KilocardError(f"unknown coefficient {name!r}: {near_match(name, names)}")
    if missing := [name for name in Coefficients.needed() if name not in given]:
        raise KilocardError(f"its coefficients lack {', '.join(missing)}")
    return Coefficients(**given)


def _reason(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            return f"unknown key {where!r}: {near_match(where, _File.model_fields)}"
        if fault["type"] == "missing":
            return f"it lacks {where}"
        return f"{where}: {fault['msg']}" if where else "it has no keys such as card, kind and coefficients"
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(said.split())


def write_calibration(path: Path, card: str, calibration: Calibration, **about: Any) -> None:
    """Write a calibration that `read_calibration` reads, whole or not at all."""
    content = {
        "card": card,
        "kind": calibration.kind,
        "source": calibration.source,
        "coefficients": calibration.coefficients.as_dict(),
        "expected_error": dict(calibration.expected_error),
        **about,
    }
    write_whole(path, yaml.safe_dump(content, sort_keys=False))


def require_place(path: Path) -> None:
    """Refuse a place where no calibration can be written, or where something else would be lost."""
    place = require_writable(path)
    if place.exists() and place.stat().st_size:
        try:
            read_calibration(place)
        except KilocardError as error:
            raise KilocardError(f"{path} is there, and no calibration: name another --out") from error
