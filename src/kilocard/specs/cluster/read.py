"""A cluster file, read: checked as a whole, with the environment's values before its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from kilocard.errors import KilocardError
from kilocard.facts.files import user_path
from kilocard.facts.yaml_rows import UNREADABLE, RowLoader, yaml_problem
from kilocard.specs.cluster.faults import Fault, Origin, faults_in, secret_faults
from kilocard.specs.cluster.overrides import Place, overridden
from kilocard.specs.cluster.paths import placed
from kilocard.specs.cluster.secrets import secret_places, without_secrets
from kilocard.specs.cluster.spec import ClusterSpec
from kilocard.specs.text_file import read_short

MOST_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Content:
    """A file's keys and values as they stand, and where each comes from."""

    raw: Mapping[str, Any]
    origin: Origin
    folder: Path


def read_cluster(path: Path | str, environment: Mapping[str, str] | None = None) -> ClusterSpec:
    """A cluster from a YAML file and the environment (this process's unless given). Reading again gives a new
    one, equal where nothing changed. Relative paths of the file are seen from its own folder."""
    content = read_content(path, environment)
    return placed(_checked(content.raw, content.origin), content.folder)


def cluster_from(raw: Mapping[str, Any], name: str = "the cluster") -> ClusterSpec:
    """A cluster from plain values."""
    return _checked(raw, Origin(name))


def faults_of(path: Path | str, environment: Mapping[str, str] | None = None) -> list[Fault]:
    """Everything that is wrong with a file, in the order of its lines.

    A key that is unknown hides what else is wrong around it, so the file is looked at again without it.
    """
    try:
        content = read_content(path, environment)
    except KilocardError as error:
        return [Fault(str(path), "", str(error))]
    raw, found = content.raw, dict[tuple[Place, str], Fault]()
    for _ in range(MOST_ROUNDS):
        faults = _faults(raw, content.origin)
        found |= {(fault.place, fault.told): fault for fault in faults}
        unknown = [fault.place for fault in faults if "unknown key" in fault.told and fault.place]
        if not unknown:
            break
        for place in unknown:
            raw = _without(raw, place)
    lines = content.origin.lines
    return sorted(found.values(), key=lambda fault: _line(lines, fault.place))


def read_content(path: Path | str, environment: Mapping[str, str] | None = None) -> Content:
    """What a file says, not checked yet."""
    place = user_path(path)
    try:
        text = read_short(place)
        raw = yaml.load(text, Loader=RowLoader)
        lines = _lines(yaml.compose(text, Loader=RowLoader))
    except (KilocardError, *UNREADABLE) as error:
        told = without_secrets(yaml_problem(error))
        raise KilocardError(f"cannot read the cluster {path}: {told}") from error
    if not isinstance(raw, dict):
        raise KilocardError(f"{path} is no cluster: it needs at least the keys name, model and pools")
    content, variables = overridden(raw, os.environ if environment is None else environment)
    return Content(content, Origin(str(path), lines, variables), place.parent)


def _checked(raw: Mapping[str, Any], origin: Origin) -> ClusterSpec:
    try:
        spec = ClusterSpec.model_validate(raw)
        if secrets := secret_faults(secret_places(raw), origin):
            raise KilocardError(str(secrets[0]))
        return spec
    except ValidationError as error:
        raise KilocardError(str(faults_in(error, origin)[0])) from None
    except RecursionError:
        raise KilocardError(f"{origin.name}: it is nested too deeply") from None


def _faults(raw: Mapping[str, Any], origin: Origin) -> list[Fault]:
    try:
        secrets = secret_faults(secret_places(raw), origin)
        ClusterSpec.model_validate(raw)
    except ValidationError as error:
        return [*secrets, *faults_in(error, origin)]
    except RecursionError:
        return [Fault(origin.name, "", "it is nested too deeply")]
    return secrets


def _line(lines: Mapping[Place, int], place: Place) -> int:
    return next((lines[place[:n]] for n in range(len(place), 0, -1) if place[:n] in lines), 0)


def _without(content: Any, place: Place) -> Any:
    """The content without the key at a place."""
    if not place:
        return content
    first, rest = place[0], place[1:]
    if isinstance(content, Mapping) and first in content:
        if not rest:
            return {key: value for key, value in content.items() if key != first}
        return {**content, first: _without(content[first], rest)}
    if isinstance(content, list | tuple) and isinstance(first, int) and first < len(content):
        return [*content[:first], _without(content[first], rest), *content[first + 1 :]]
    return content


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
