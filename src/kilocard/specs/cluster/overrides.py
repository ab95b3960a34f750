"""Values from the environment that go before a cluster file's: `KILOCARD__GATEWAY__PORT=9000`.

Two underscores part the keys. An item of a list is named by its number, or by its own name or id:
`KILOCARD__POOLS__CHAT__CAP=24`. A value that begins with [ or { is YAML, `null` is none, all else is text
that the field reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from kilocard.errors import KilocardError
from kilocard.facts.yaml_rows import UNREADABLE, RowLoader, yaml_problem
from kilocard.specs.cluster.secrets import without_secrets

PREFIX = "KILOCARD__"
MOST_KEYS = 8
Place = tuple[str | int, ...]


def overridden(
    raw: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[dict[str, Any], dict[Place, str]]:
    """The content of a file with the environment's values in their places, and which variable set which
    place."""
    content: Any = dict(raw)
    places: dict[Place, str] = {}
    for variable in sorted(environment):
        if not variable.startswith(PREFIX):
            continue
        keys = variable.removeprefix(PREFIX).split("__")
        if not all(keys) or len(keys) > MOST_KEYS:
            raise KilocardError(
                f"{variable} names no field: write it like {PREFIX}GATEWAY__PORT, two underscores "
                "between keys"
            )
        place = _place(content, keys, variable)
        content = _with(content, place, _value(environment[variable], variable))
        places[place] = variable
    return content, places


def _place(content: Any, keys: Sequence[str], variable: str) -> Place:
    """The keys as the content has them; what it does not have yet is in lower case."""
    place: list[str | int] = []
    for key in keys:
        found: str | int
        if isinstance(content, list):
            found = _item(content, key, variable)
            content = content[found]
        else:
            known = content if isinstance(content, Mapping) else {}
            found = next((name for name in known if _same(name, key)), key.lower())
            content = known.get(found)
        place.append(found)
    return tuple(place)


def _item(items: list[Any], key: str, variable: str) -> int:
    """The number of an item, that its number, name, id or URL stands for."""
    if key.isascii() and key.isdigit() and int(key[:9]) < len(items):
        return int(key[:9])
    names = [
        next((item[name] for name in ("name", "id") if item.get(name)), None)
        if isinstance(item, Mapping)
        else None
        for item in items
    ]
    for number, name in enumerate(names):
        if _same(name, key):
            return number
    known = ", ".join(str(name) for name in names if name)[:200]
    raise KilocardError(
        f"{variable}: the list has no item {key}: use a number of 0 to {len(items) - 1}"
        + (f", or a name of {known}" if known else "")
    )


def _same(name: object, key: str) -> bool:
    return isinstance(name, str) and re.sub(r"[^a-z0-9]", "_", name.lower()) == key.lower()


def _with(content: Any, place: Sequence[str | int], value: Any) -> Any:
    if not place:
        return value
    first, rest = place[0], place[1:]
    if isinstance(content, list):
        at = int(first)
        return [*content[:at], _with(content[at], rest, value), *content[at + 1 :]]
    if isinstance(content, str) and first in ("id", "weight", "cap", "node", "version", "group"):
        content = {"url": content}
    known = content if isinstance(content, Mapping) else {}
    return {**known, first: _with(known.get(first), rest, value)}


def _value(text: str, variable: str) -> Any:
    if text.strip() == "null":
        return None
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return yaml.load(text, Loader=RowLoader)
    except UNREADABLE as error:
        told = without_secrets(yaml_problem(error))
        raise KilocardError(f"{variable} is no YAML: {told}; write it like [a, b]") from error
