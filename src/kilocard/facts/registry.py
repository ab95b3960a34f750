"""The catalogue: rows of `data/facts`, and those that a reader adds."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

import kilocard
from kilocard.errors import KilocardError, near_match
from kilocard.facts.card import Card
from kilocard.facts.files import is_folder, is_there, user_path
from kilocard.facts.hf_config import model_from_config
from kilocard.facts.link import Link
from kilocard.facts.model import Model
from kilocard.facts.yaml_rows import id_of, read_yaml, row_id

Row = TypeVar("Row")

FACTS_VARIABLE = "KILOCARD_FACTS"
"""Files or folders of rows to add, separated as in PATH; a later file's row replaces one of the same id.

Ids are read in lower case, and looked up so.
"""

OF_YOUR_OWN = "; or put a row of your own into a YAML file and name that with --facts or KILOCARD_FACTS"

SECTIONS: Mapping[str, TypeAdapter[Any]] = {
    "cards": TypeAdapter(Card),
    "models": TypeAdapter(Model),
    "links": TypeAdapter(Link),
}


def cards() -> Mapping[str, Card]:
    """All cards by id."""
    return _section("cards")


def models() -> Mapping[str, Model]:
    """All models by id."""
    return _section("models")


def links() -> Mapping[str, Link]:
    """All links by id."""
    return _section("links")


def card(name: str | Card) -> Card:
    """The card of that id; an error suggests the nearest one."""
    return name if isinstance(name, Card) else _find(cards(), name, "card", OF_YOUR_OWN)


def link(name: str | Link) -> Link:
    """The link of that id; an error suggests the nearest one."""
    return name if isinstance(name, Link) else _find(links(), name, "link", OF_YOUR_OWN)


def model(name: str | Model) -> Model:
    """The model of that id or Hugging Face name, or of the `config.json` at that path."""
    if isinstance(name, Model):
        return name
    known = models()
    published = {id_of(row.huggingface_id): row for row in known.values() if row.huggingface_id}
    if found := known.get(id_of(name)) or published.get(id_of(name)):
        return found
    if looks_like_path(name):
        return model_from_config(Path(name))
    return _find(known, name, "model", "; or give the path of a Hugging Face config.json")


def looks_like_path(name: str) -> bool:
    """Whether a name means a file: it exists, ends in .json, or starts as paths do."""
    return bool(name) and (name.endswith(".json") or name.startswith((".", "/", "~")) or is_there(Path(name)))


def _find(rows: Mapping[str, Row], name: str, what: str, way_out: str = "") -> Row:
    if found := rows.get(id_of(name)):
        return found
    raise KilocardError(f"unknown {what} {name!r}: {near_match(name, rows)}{way_out}")


def _section(name: str) -> Mapping[str, Any]:
    return _catalogue(tuple((path, _written_at(path)) for path in _files()))[name]


def _written_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError as error:
        raise KilocardError(f"{FACTS_VARIABLE}: cannot read {path}: {error.strerror}") from error


def _files() -> Iterator[Path]:
    yield from sorted(facts_folder().glob("*.yaml"))
    for entry in filter(None, os.environ.get(FACTS_VARIABLE, "").split(os.pathsep)):
        path = user_path(entry)
        if not is_there(path):
            raise KilocardError(
                f"{FACTS_VARIABLE}: nothing at {entry}; name a YAML file of rows or a folder of them"
            )
        yield from sorted(path.glob("*.yaml")) if is_folder(path) else [path]


def facts_folder() -> Path:
    """`data/facts` of the checkout that this package runs from."""
    folder = Path(kilocard.__file__).resolve().parents[2] / "data" / "facts"
    if not (folder / "cards.yaml").is_file():
        raise KilocardError(f"no facts at {folder}: run from a checkout, installed with `pip install -e .`")
    return folder


@lru_cache(maxsize=8)
def _catalogue(files: tuple[tuple[Path, int], ...]) -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for path, _ in files:
        for section, rows in _read(path).items():
            found[section] |= _rows(path, section, rows)
    return MappingProxyType({name: MappingProxyType(rows) for name, rows in found.items()})


def _read(path: Path) -> dict[str, dict[Any, Any]]:
    content = read_yaml(path)
    sections: dict[str, Any] = (content or {}) if isinstance(content, dict | None) else {str(content): None}
    for section, rows in sections.items():
        if section not in SECTIONS or not isinstance(rows, dict):
            raise KilocardError(
                f"{path}: {str(section)[:40]!r} is not cards, models or links with rows under their ids"
            )
    return sections


def _rows(path: Path, section: str, rows: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, row in rows.items():
        try:
            name = row_id(key)
            if name in found:
                raise KilocardError("its id is there twice; ids are read in lower case")
            found[name] = _row(section, name, row)
        except KilocardError as error:
            where = f"{path}: {section} {str(key)[:60]}"
            raise KilocardError(
                f"{where}: {error}; see the comment at the top of data/facts/{section}.yaml"
            ) from error
    return found


def _row(section: str, name: str, row: Any) -> Any:
    if not isinstance(row, dict | None):
        raise KilocardError(f"it is {reprlib.repr(row)}, no row of keys and values")
    content = {"id": name, **(row or {})}
    if not isinstance(content["id"], str) or id_of(content["id"]) != name:
        raise KilocardError(f"its id inside is {reprlib.repr(content['id'])}; leave it out, the key is it")
    try:
        return SECTIONS[section].validate_python({**content, "id": name})
    except ValidationError as error:
        raise KilocardError(_first_problem(error)) from error


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(str(step) for step in first["loc"])
    value = "" if first["type"] == "missing" else f" is {reprlib.repr(first['input'])}"
    return f"{field}{value}: {first['msg'].lower()}"
