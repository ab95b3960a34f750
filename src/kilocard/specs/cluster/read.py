"""A cluster file, read: each fault in one line that names the file's line, the key, the value and the way
out."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from kilocard.errors import KilocardError
from kilocard.facts.files import user_path
from kilocard.facts.yaml_rows import UNREADABLE, RowLoader, yaml_problem
from kilocard.specs.cluster.overrides import Place, overridden
from kilocard.specs.cluster.spec import ClusterSpec
from kilocard.specs.text_file import read_short
from kilocard.specs.written import LONGEST_TOLD

SECRET_KEYS = frozenset({"keys", "engine_key"})
"""Where a user may have written a secret: what stands there is never told, nor a URL with a password."""
OWN_POLICY = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_]\w*)")
"""A policy of the operator's own: a file beside the cluster's, and the function in it."""
UNKNOWN = re.compile(r"unknown key '([^']*)'")


def read_cluster(path: Path | str, environment: Mapping[str, str] | None = None) -> ClusterSpec:
    """A cluster from a YAML file and the environment (this process's unless given). Reading again gives a new
    one, equal where nothing changed. Relative paths of the file are seen from its own folder."""
    place = user_path(path)
    try:
        text = read_short(place)
        raw = yaml.load(text, Loader=RowLoader)
        lines = _lines(yaml.compose(text, Loader=RowLoader))
    except (KilocardError, *UNREADABLE) as error:
        raise KilocardError(f"cannot read the cluster {path}: {yaml_problem(error)}") from error
    if not isinstance(raw, dict):
        raise KilocardError(f"{path} is no cluster: it needs at least the keys name, model and pools")
    content, variables = overridden(raw, os.environ if environment is None else environment)
    return _placed(_checked(content, str(path), lines, variables), place.parent)


def cluster_from(raw: Mapping[str, Any], name: str = "the cluster") -> ClusterSpec:
    """A cluster from plain values."""
    return _checked(raw, name, {}, {})


def _checked(
    raw: Mapping[str, Any], name: str, lines: Mapping[Place, int], variables: Mapping[Place, str]
) -> ClusterSpec:
    try:
        return ClusterSpec.model_validate(raw)
    except ValidationError as error:
        raise KilocardError(_fault(error, name, lines, variables)) from None
    except RecursionError:
        raise KilocardError(f"{name}: it is nested too deeply") from None


def _fault(
    error: ValidationError, name: str, lines: Mapping[Place, int], variables: Mapping[Place, str]
) -> str:
    """The first fault, and of keys that are missing all."""
    faults = error.errors(include_url=False)
    first = faults[0]
    place = first["loc"]
    unknown = UNKNOWN.search(first["msg"])
    where = _source((*place, unknown[1]) if unknown else place, name, lines, variables)
    if first["type"] == "missing":
        missing = [_dotted(fault["loc"]) for fault in faults if fault["type"] == "missing"]
        return f"{where}: {', '.join(missing)}: missing, and needed"
    told = first["msg"].removeprefix("Value error, ")
    given = _given(first["input"], place)
    return ": ".join(part for part in (where, _dotted(place), told + given) if part)


def _source(place: Place, name: str, lines: Mapping[Place, int], variables: Mapping[Place, str]) -> str:
    """Where a value comes from: the variable that set it, else the file and the line of its key."""
    setting = [
        variable
        for set_at, variable in variables.items()
        if place and (set_at[: len(place)] == place or place[: len(set_at)] == set_at)
    ]
    if setting:
        return f"{name}, with {', '.join(setting)}"
    for length in range(len(place), 0, -1):
        if line := lines.get(place[:length]):
            return f"{name}, line {line}"
    return name


def _given(value: object, place: Place) -> str:
    """The value, where it is one that may be shown."""
    if isinstance(value, Mapping | list | tuple) or value is None or SECRET_KEYS & set(place):
        return ""
    is_plain = isinstance(value, int | float) or (isinstance(value, str) and "@" not in value)
    return f" (given: {reprlib.repr(value)})" if is_plain else ""


def _dotted(place: Place) -> str:
    return ".".join(str(part)[:LONGEST_TOLD] for part in place)


def _lines(root: Any) -> dict[Place, int]:
    """The line of each key and each item, by its place; what an alias repeats is walked once."""
    found: dict[Place, int] = {}
    seen: set[int] = set()

    def walk(node: Any, place: Place) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*place, str(key.value))
                found[inner] = key.start_mark.line + 1
                walk(value, inner)
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                found[(*place, number)] = value.start_mark.line + 1
                walk(value, (*place, number))

    walk(root, ())
    return found


def _placed(spec: ClusterSpec, folder: Path) -> ClusterSpec:
    """The files that it names, as seen from here."""
    gateway = spec.gateway
    changes: dict[str, Any] = {}
    for name in ("keys", "engine_key"):
        secret = getattr(gateway, name)
        if secret and secret.file:
            changes[name] = secret.model_copy(update={"file": _beside(secret.file, folder)})
    if gateway.admin.keys and gateway.admin.keys.file:
        own = gateway.admin.keys.model_copy(update={"file": _beside(gateway.admin.keys.file, folder)})
        changes["admin"] = gateway.admin.model_copy(update={"keys": own})
    if gateway.access_log.path:
        log = gateway.access_log
        changes["access_log"] = log.model_copy(update={"path": _beside(log.path, folder)})
    if OWN_POLICY.fullmatch(gateway.policy):
        changes["policy"] = _beside(gateway.policy, folder)
    return spec.model_copy(update={"gateway": gateway.model_copy(update=changes)}) if changes else spec


def _beside(name: str | None, folder: Path) -> str:
    return str(folder / user_path(name or ""))
