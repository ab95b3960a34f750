"""The gateway's image as it is rendered beside the manifests, taken apart, and the pod that runs it."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kilocard.deploy.targets import rendered
from kilocard.specs.cluster import read_cluster

ROOT = Path(__file__).parents[2]
PINS = "requirements-book.txt"
BUILD_TOOLS = {"setuptools", "wheel"}
Stage = list[tuple[str, str]]


@cache
def files() -> dict[str, str]:
    return rendered(read_cluster(ROOT / "data" / "clusters" / "one-box.yaml", {}), "kubernetes")


def objects(kind: str) -> list[Any]:
    return [it for it in yaml.safe_load_all(files()["base/gateway.yaml"]) if it["kind"] == kind]


def pod() -> Any:
    [gateways] = objects("StatefulSet")
    return gateways["spec"]["template"]["spec"]


def instructions() -> Stage:
    """Word and rest, continued lines joined, without comments."""
    lines = [it for it in files()["image/Containerfile"].splitlines() if not it.lstrip().startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (it.partition(" ") for it in whole if it)]


def stages() -> list[Stage]:
    """What stands before the first base, and what follows each."""
    told: list[Stage] = [[]]
    for word, rest in instructions():
        if word == "FROM":
            told.append([])
        told[-1].append((word, rest))
    return told


def of(stage: Stage, name: str) -> list[str]:
    return [rest for word, rest in stage if word == name]


def listed(rest: str) -> list[str]:
    """The words of an instruction in exec form, its flags left out."""
    words: list[str] = json.loads(re.sub(r"^(?:--\S+ )+", "", rest))
    return words


def asked_for() -> set[str]:
    """The packages that are installed by their names."""
    [words] = [listed(it) for it in of(stages()[1], "RUN") if "--constraint" in it]
    return {canonicalize_name(it) for it in words[words.index(PINS) + 1 :]}


def with_what_they_bring(names: set[str]) -> set[str]:
    whole = set(names)
    waiting = list(names)
    while waiting:
        for needed in map(Requirement, requires(waiting.pop()) or ()):
            name = canonicalize_name(needed.name)
            if name not in whole and (not needed.marker or needed.marker.evaluate({"extra": ""})):
                whole.add(name)
                waiting.append(name)
    return whole
