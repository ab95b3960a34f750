"""Manifests as others wrote them: read leniently, each object with its file and line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from kilocard.errors import KilocardError
from kilocard.facts.yaml_rows import yaml_problem

MOST_FILES, MOST_BYTES = 2000, 5_000_000
SUFFIXES = frozenset({".yaml", ".yml", ".json"})
TEMPLATED = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"})


@dataclass(frozen=True)
class Object:
    """One object of a cluster."""

    content: Mapping[str, Any]
    file: str
    line: int

    @property
    def kind(self) -> str:
        """Like Deployment."""
        return str(self.content.get("kind", ""))

    @property
    def name(self) -> str:
        """As its metadata has it."""
        return str(at(self.content, "metadata", "name") or "")

    @property
    def namespace(self) -> str:
        """Empty where it names none."""
        return str(at(self.content, "metadata", "namespace") or "")

    @property
    def spec(self) -> Mapping[str, Any]:
        """Empty where it has none."""
        return mapping(self.content.get("spec"))

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()

    @cached_property
    def templates(self) -> list[Mapping[str, Any]]:
        """The pod templates in it: of a LeaderWorkerSet two."""
        if self.kind == "Pod":
            return [self.content]
        if self.kind == "LeaderWorkerSet":
            both = mapping(self.spec.get("leaderWorkerTemplate"))
            return [mapping(both[name]) for name in ("leaderTemplate", "workerTemplate") if both.get(name)]
        if self.kind == "CronJob":
            return [mapping(at(self.spec, "jobTemplate", "spec", "template"))]
        return [mapping(self.spec.get("template"))] if self.kind in TEMPLATED else []

    @property
    def replicas(self) -> int:
        """1 where it says nothing."""
        said = self.spec.get("replicas")
        return said if isinstance(said, int) and not isinstance(said, bool) else 1


def read_manifests(folder: Path) -> list[Object]:
    """Every object below a folder, or in one file."""
    if not folder.exists():
        raise KilocardError(f"{folder} is not there: name a folder of manifests, or one file")
    files = [folder] if folder.is_file() else sorted(it for it in folder.rglob("*") if it.suffix in SUFFIXES)
    if len(files) > MOST_FILES:
        raise KilocardError(
            f"{folder} has {len(files)} files, at most {MOST_FILES} are read: name a part of it"
        )
    return [it for file in files for it in _objects(file, folder)]


def _objects(file: Path, folder: Path) -> Iterator[Object]:
    name = str(file.relative_to(folder)) if folder.is_dir() else str(file)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise KilocardError(f"{file} is longer than {MOST_BYTES:,} bytes: no manifest is")
        text = file.read_text(encoding="utf-8")
        for node in yaml.compose_all(text, Loader=yaml.CSafeLoader):
            loader = yaml.SafeLoader("")
            content = loader.construct_document(node)
            yield from _flat(content, name, node.start_mark.line + 1)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise KilocardError(f"cannot read {file}: {yaml_problem(error)}") from error


def _flat(content: Any, file: str, line: int) -> Iterator[Object]:
    if not isinstance(content, dict):
        return
    if content.get("kind") == "List" and isinstance(content.get("items"), list):
        for item in content["items"]:
            yield from _flat(item, file, line)
    else:
        yield Object(content, file, line)


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, where it is one."""
    return value if isinstance(value, Mapping) else {}


def rows(value: Any) -> list[Mapping[str, Any]]:
    """The mappings of a list."""
    return [it for it in value if isinstance(it, Mapping)] if isinstance(value, list) else []


def at(content: Any, *keys: str) -> Any:
    """What stands at a place, None where nothing does."""
    for key in keys:
        if not isinstance(content, Mapping):
            return None
        content = content.get(key)
    return content
