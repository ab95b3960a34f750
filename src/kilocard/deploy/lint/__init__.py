"""What is wrong with manifests, whoever wrote them."""

from __future__ import annotations

from pathlib import Path

from kilocard.deploy.lint import cards, files, life, numbers, replicas, services, volumes
from kilocard.deploy.lint.finding import Finding
from kilocard.deploy.lint.manifests import Object, read_manifests
from kilocard.deploy.lint.world import Told, world_of

__all__ = ["CLASSES", "Finding", "lint_manifests", "lint_objects"]

OF_ENGINES = cards.RULES | life.RULES
BETWEEN = replicas.RULES | services.RULES | volumes.RULES | files.RULES | numbers.RULES
CLASSES = (*OF_ENGINES, *BETWEEN)
"""Every class of mistakes that is looked for: at one engine, and between objects."""


def lint_manifests(folder: Path) -> list[Finding]:
    """Everything in a folder or a file, in the order of its files and lines."""
    return lint_objects(read_manifests(folder))


def lint_objects(objects: list[Object]) -> list[Finding]:
    """Each mistake once."""
    world = world_of(objects)
    found = [
        _finding(name, engine.owner, told)
        for engine in world.engines
        for name, rule in OF_ENGINES.items()
        for told in rule(engine)
    ]
    found += [_finding(name, owner, told) for name, rule in BETWEEN.items() for owner, told in rule(world)]
    return sorted(set(found), key=lambda it: (it.file, it.line, it.weight, it.rule))


def _finding(name: str, owner: Object, told: Told) -> Finding:
    weight, text = told
    return Finding(name, weight, owner.file, owner.line, str(owner), text)
