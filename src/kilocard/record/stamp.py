"""Where a run comes from: without it, no number is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, Field, PositiveInt, TypeAdapter

from kilocard.errors import KilocardError


class Kind(StrEnum):
    """How a number came to be; no kind may pass for another."""

    MEASURED = "measured"
    EMULATED = "emulated"
    SIMULATED = "simulated"
    DERIVED = "derived"
    PUBLISHED = "published"


def kind_of(maker: str) -> Kind:
    """What comes of an engine by its maker: a server of this project only plays one, and is named so."""
    return Kind.EMULATED if maker.startswith("kilocard-") else Kind.MEASURED


@dataclass(frozen=True, slots=True)
class Stamp:
    """Where a run comes from: without it, no number is shown."""

    kind: Kind
    model: str
    engine: str
    engine_version: str
    card: str
    box: Mapping[str, Any]
    started_at: str
    """ISO 8601, UTC."""
    layout: str = "TP 1"
    settings: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    """`stages` maps a stage number (as a string) to its level, e.g. {"concurrency": 8}."""
    seed: int | None = None
    source: str = ""
    kilocard_version: str = ""
    client: Mapping[str, Any] = field(default_factory=dict)
    """The load generator's own health: `loop_lag_p99_s`, `late_sends`, `interrupted`."""
    valid: bool = True
    invalid_reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", Kind(self.kind))
        if self.kind is Kind.PUBLISHED and not self.source:
            raise KilocardError("a published run needs its source: set Stamp.source to the publication")

    @property
    def caption(self) -> str:
        """One line for the corner of a figure: kind, hardware, engine and version, date.

        The hardware is the box that was measured, or the card that was played: not the box that played it.
        """
        played = self.kind in (Kind.EMULATED, Kind.SIMULATED)
        hardware = self.card if played else self.box.get("name", "")
        parts = [self.kind.value, hardware, f"{self.engine} {self.engine_version}".strip()]
        return " · ".join([*filter(None, parts), self.started_at[:10]])


class _Level(BaseModel):
    concurrency: PositiveInt | None = None
    rate_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class _Workload(BaseModel):
    stages: dict[str, _Level] = {}


class _Box(BaseModel):
    name: str = ""


class _Inner(BaseModel):
    """What is read inside a stamp's free parts; the rest of them may be anything."""

    box: _Box
    workload: _Workload = _Workload()


_STAMP = TypeAdapter(Stamp)


def stamp_from(record: Mapping[str, Any]) -> Stamp:
    """A stamp from its stored form, ValueError for none; fields that a later version added are ignored."""
    names = {item.name for item in fields(Stamp)}
    known = {name: value for name, value in record.items() if name in names}
    _Inner.model_validate(known)
    return _STAMP.validate_python(known)
