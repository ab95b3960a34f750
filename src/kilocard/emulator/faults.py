"""How an emulated engine misbehaves on request: by flag, or at run time by `POST /emulator/fault`."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kilocard.errors import KilocardError, near_match

Share = Annotated[float, Field(ge=0, le=1)]


class Faults(BaseModel):
    """What an engine does wrong; the defaults are a sound engine."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    slow: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """Every step lasts so many times as long."""
    hang: bool = False
    """No step is made any more, while HTTP and /health still answer."""
    crash: bool = False
    """The port closes and every connection breaks, in the middle of its stream; all that was in the engine is
    lost. False starts it anew, empty."""
    refuse: bool = False
    """No new connection is taken; those that are open stay."""
    http_500: Share = 0.0
    """The share of requests that are answered with a 500."""
    error_event: Share = 0.0
    """The share of streams that end half way with an error event inside the 200."""
    start_s: Annotated[float, Field(ge=0, le=86_400)] = 0.0
    """From now on, 503 for so many seconds: it still loads its weights."""

    @property
    def closes_port(self) -> bool:
        """Whether no connection is taken."""
        return self.crash or self.refuse

    def changed(self, changes: dict[str, Any]) -> Faults:
        """With some changed; KilocardError names the one that is not possible."""
        try:
            return Faults.model_validate(self.model_dump() | changes)
        except ValidationError as error:
            fault = error.errors()[0]
            name = str(fault["loc"][0])
            if name not in Faults.model_fields:
                raise KilocardError(
                    f"unknown fault {reprlib.repr(name)}: {near_match(name, Faults.model_fields)}"
                ) from error
            raise KilocardError(
                f"fault {name}={reprlib.repr(fault['input'])}: {fault['msg'].lower()}"
            ) from error


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault that a flag asks for: of one engine or (None) of all, `after_s` seconds from the start."""

    changes: dict[str, Any]
    engine: int | None
    after_s: float


FORM = "write it like slow=4, hang@2 (engine 2) or crash@0+30 (30 s after the start)"
_FLAG = re.compile(r"(?P<name>[a-z0-9_-]+)(=(?P<value>[^@+]+))?(@(?P<engine>\d+))?(\+(?P<after>[\d.]+))?")


def planned(text: str, engines: int) -> PlannedFault:
    """A fault as a flag names it: NAME[=VALUE][@ENGINE][+SECONDS]."""
    found = _FLAG.fullmatch(text)
    if found is None:
        raise KilocardError(f"--fault {text!r} is none: {FORM}")
    name, value = found["name"].replace("-", "_"), found["value"]
    try:
        changes = {name: True if value is None else float(value)}
        Faults().changed(changes)
        after_s = float(found["after"] or 0)
    except (KilocardError, ValueError) as error:
        raise KilocardError(f"--fault {text!r}: {error}; {FORM}") from error
    engine = None if found["engine"] is None else int(found["engine"])
    if engine is not None and engine >= engines:
        raise KilocardError(f"--fault {text!r}: there is no engine {engine}; they are 0 to {engines - 1}")
    return PlannedFault(changes, engine, after_s)


def all_planned(texts: Sequence[str], engines: int) -> list[PlannedFault]:
    """All faults that flags ask for."""
    return [planned(text, engines) for text in texts]
