"""YAML as rows are written in it: an id once, a date as text, nothing that runs."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from kilocard.errors import KilocardError
from kilocard.facts.files import read_text

LONGEST_ID = 100
UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RecursionError,
    yaml.YAMLError,
)
"""What reading YAML may raise: its file's faults, and its values'."""


class RowLoader(yaml.SafeLoader):
    """YAML's safe subset, which refuses a key given twice and leaves dates as they are written."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML's own name and form)
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping whose keys are all different; what `<<` brings in may be replaced."""
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    problem="a key is no text but a list or a mapping", problem_mark=key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value[:60]!r} is there twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def read_yaml(path: Path) -> Any:
    """What a YAML file holds; one line says what is wrong with it, and where."""
    try:
        return yaml.load(read_text(path), Loader=RowLoader)
    except UNREADABLE as error:
        raise KilocardError(
            f"cannot read {path}: {yaml_problem(error)}; it has to be YAML with cards, models or links"
        ) from error


def yaml_problem(error: BaseException) -> str:
    """What is wrong with YAML, or with the file that holds it, in one line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, yaml.MarkedYAMLError):
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        return f"{error.problem or error.context}{line}"
    if isinstance(error, LookupError):
        return f"{error} is no value of its tag"
    return " ".join((getattr(error, "strerror", None) or str(error)).split())


def row_id(name: object) -> str:
    """The id that a row is found under: as it is written, in lower case."""
    if not isinstance(name, str):
        raise KilocardError(f"the id {str(name)[:60]} is no text; put it in quotes")
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_ID:
        raise KilocardError(f"the id {name[:60]!r} is no name of 1 to {LONGEST_ID} printable characters")
    return id_of(name)


def id_of(name: str) -> str:
    """The one spelling of an id: names are told apart without regard to case."""
    return name.strip().lower()
