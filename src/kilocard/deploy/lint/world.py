"""All the objects together, for mistakes that are between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kilocard.deploy.lint.engine import Engine, engines
from kilocard.deploy.lint.finding import Weight
from kilocard.deploy.lint.manifests import Object, at, mapping

Told = tuple[Weight, str]
Found = Iterator[tuple[Object, Told]]
"""Of a rule between objects: whose mistake it is, and what is told of it."""


@dataclass(frozen=True)
class World:
    """What a folder holds, and its engines."""

    objects: list[Object]
    engines: list[Engine]

    def of_kind(self, *kinds: str) -> list[Object]:
        """In the order of their files."""
        return [it for it in self.objects if it.kind in kinds]

    def selected(self, labels: Mapping[str, Any], namespace: str) -> list[tuple[Object, Mapping[str, Any]]]:
        """The pod templates that these labels choose."""
        return [
            (owner, template)
            for owner in self.objects
            if not namespace or not owner.namespace or owner.namespace == namespace
            for template in owner.templates
            if labels and chooses(labels, mapping(at(template, "metadata", "labels")))
        ]

    def serves(self, owner: Object) -> bool:
        """Whether an object runs engines."""
        return any(engine.owner is owner for engine in self.engines)


def world_of(objects: list[Object]) -> World:
    """With its engines found."""
    return World(objects, list(engines(objects)))


def chooses(wanted: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether every wanted label is there."""
    return all(labels.get(name) == value for name, value in wanted.items())
