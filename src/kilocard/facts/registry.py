"""The catalogue: rows of `data/facts`, and those that a reader adds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

import kilocard
from kilocard.errors import KilocardError, near_match
from kilocard.facts.card import Card
from kilocard.facts.hf_config import model_from_config
from kilocard.facts.link import Link
from kilocard.facts.model import Model

Row = TypeVar("Row")

FACTS_VARIABLE = "KILOCARD_FACTS"
"""Files or folders of rows to add, separated as in PATH; a later row replaces an earlier one of its id."""

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
    return name if isinstance(name, Card) else _find(cards(), name, "card")


def link(name: str | Link) -> Link:
    """The link of that id; an error suggests the nearest one."""
    return name if isinstance(name, Link) else _find(links(), name, "link")


def model(name: str | Model) -> Model:
    """The model of that id or Hugging Face name, or of the `config.json` at that path."""
    if isinstance(name, Model):
        return name
    known = models()
    for row in known.values():
        if name.lower() in (row.id, row.huggingface_id.lower()):
            return row
    if looks_like_path(name):
        return model_from_config(Path(name))
    return _find(known, name, "model", "; or give the path of a Hugging Face config.json")


def looks_like_path(name: str) -> bool:
    """Whether a name means a file: it exists, ends in .json, or starts as paths do."""
    return bool(name) and (name.endswith(".json") or name.startswith((".", "/", "~")) or Path(name).exists())


def _find(rows: Mapping[str, Row], name: str, what: str, way_out: str = "") -> Row:
    if name.lower() in rows:
        return rows[name.lower()]
    raise KilocardError(f"unknown {what} {name!r}: {near_match(name, rows)}{way_out}")


def _section(name: str) -> Mapping[str, Any]:
    files = [(path, path.stat().st_mtime_ns) for path in _files()]
    return _catalogue(tuple(files))[name]


def _files() -> Iterator[Path]:
    yield from sorted(facts_folder().glob("*.yaml"))
    for entry in filter(None, os.environ.get(FACTS_VARIABLE, "").split(os.pathsep)):
        path = Path(entry).expanduser()
        if not path.exists():
            raise KilocardError(
                f"{FACTS_VARIABLE}: nothing at {entry}; name a YAML file of rows or a folder of them"
            )
        yield from sorted(path.glob("*.yaml")) if path.is_dir() else [path]


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
            for row_id, row in rows.items():
                found[section][str(row_id)] = _row(path, section, str(row_id), row)
    return MappingProxyType({name: MappingProxyType(rows) for name, rows in found.items()})


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise KilocardError(
            f"cannot read {path}: {error}; it has to be YAML with cards, models or links"
        ) from error
    sections: dict[str, Any] = (content or {}) if isinstance(content, dict | None) else {str(content): None}
    for section, rows in sections.items():
        if section not in SECTIONS or not isinstance(rows, dict):
            raise KilocardError(
                f"{path}: {str(section)[:40]!r} is not cards, models or links with rows under their ids"
            )
    return sections


def _row(path: Path, section: str, row_id: str, row: Any) -> Any:
    try:
        return SECTIONS[section].validate_python({"id": row_id, **(row or {})})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(step) for step in first["loc"])
        problem = f"{field}: {first['msg']}"
    except (KilocardError, TypeError) as error:
        problem = str(error)
    raise KilocardError(
        f"{path}: {section} {row_id}: {problem}; see the comment at the top of data/facts/{section}.yaml"
    )
