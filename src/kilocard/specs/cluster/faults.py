"""What is wrong with a cluster file: each fault in a line with its place, its key, and the way out."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from kilocard.specs.cluster.overrides import Place
from kilocard.specs.cluster.secrets import looks_secret, without_secrets
from kilocard.specs.cluster.spec import DISAGREES
from kilocard.specs.written import LONGEST_TOLD

SECRET_KEYS = frozenset({"keys", "engine_key", "environment", "extra_args"})
"""Where a user may have written a secret: what stands there is never told, nor a URL with a password."""
UNKNOWN = re.compile(r"unknown key '([^']*)'")


@dataclass(frozen=True, slots=True)
class Fault:
    """`where` is the file and line, or the variable that set the value; `key` is empty where it is the file
    as a whole."""

    where: str
    key: str
    told: str
    place: Place = ()

    @property
    def hidden(self) -> Fault:
        """As it may be shown: a name may be a secret by mistake, too."""
        return replace(self, key=without_secrets(self.key), told=without_secrets(self.told))

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.key, self.told) if part)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the values of a content come from: the lines of a file, and variables of the environment."""

    name: str
    lines: Mapping[Place, int] = field(default_factory=dict)
    variables: Mapping[Place, str] = field(default_factory=dict)

    def of(self, place: Place) -> str:
        """The variable that set a value, else the file and the line of its key."""
        setting = [
            variable
            for set_at, variable in self.variables.items()
            if place and (set_at[: len(place)] == place or place[: len(set_at)] == set_at)
        ]
        if setting:
            return f"{self.name}, with {', '.join(setting)}"
        for length in range(len(place), 0, -1):
            if line := self.lines.get(place[:length]):
                return f"{self.name}, line {line}"
        return self.name


def faults_in(error: ValidationError, origin: Origin) -> list[Fault]:
    """Each of them; keys that are missing at one place are one fault."""
    told = error.errors(include_url=False)
    missing = [its["loc"] for its in told if its["type"] == "missing"]
    found = [_missing(missing, origin)] if missing else []
    for its in told:
        if its["type"] == DISAGREES:
            found += [
                Fault(origin.of(it.place), _dotted(it.place), it.told, it.place) for it in its["ctx"]["found"]
            ]
        elif its["type"] != "missing" and not _follows(its):
            found.append(_fault(its, origin))
    return [fault.hidden for fault in found]


def secret_faults(places: Iterable[Place], origin: Origin) -> list[Fault]:
    """A secret that stands in the file."""
    told = (
        "this looks like a secret, and none stands in the file: put it in a file or a variable, write "
        "{file: PATH} or {variable: NAME} where a secret is asked for, and make a new one: this one was seen"
    )
    return [Fault(origin.of(place), _dotted(place), told, place).hidden for place in places]


def _follows(told: Any) -> bool:
    """A list is not too short because of what is wrong with its items: that is told by itself."""
    return told["type"] == "too_short" and len(told["input"]) > 0


def _missing(places: list[Place], origin: Origin) -> Fault:
    return Fault(
        origin.of(places[0]),
        "",
        f"{', '.join(_dotted(place) for place in places)}: missing, and needed",
        places[0],
    )


def _fault(told: Any, origin: Origin) -> Fault:
    place = _as_written(told["loc"])
    unknown = UNKNOWN.search(told["msg"])
    whole = (*place, unknown[1]) if unknown else place
    message = told["msg"].removeprefix("Value error, ")
    return Fault(origin.of(whole), _dotted(place), message + _given(told["input"], place), whole)


def _as_written(place: Place) -> Place:
    """The keys of a file, by the names that are written."""
    keys = tuple(part for part in place if not re.search(r"[\[(]|^constrained-", str(part)))
    if len(keys) > 2 and keys[0] == "pools" and keys[2] in ("count", "discovery"):
        return (*keys[:2], "replicas", *keys[3:])
    return keys


def _given(value: object, place: Place) -> str:
    """The value, where it is one that may be shown."""
    if isinstance(value, Mapping | list | tuple) or value is None or SECRET_KEYS & set(place):
        return ""
    is_plain = isinstance(value, int | float) or (
        isinstance(value, str) and "@" not in value and not looks_secret(value)
    )
    return f" (given: {reprlib.repr(value)})" if is_plain else ""


def _dotted(place: Place) -> str:
    return ".".join(str(part)[:LONGEST_TOLD] for part in place)
