"""Cluster files side by side: what differs, and what is said of a bad one."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from kilocard.specs.cluster import ClusterSpec, Fault, differences, faults_of

REST = "name: a\nmodel: qwen3-8b\npools:\n  - {name: chat, card: h100-sxm, replicas: 2}\n"


def changed(old: ClusterSpec, new: ClusterSpec) -> list[str]:
    """`place: old → new` for each value that differs; what follows from another value is left out."""
    told = []
    for place in differences(old, new):
        if ".replicas." not in place:
            told.append(f"{place}: {_at(old, place)} → {_at(new, place)}")
    return told


def first_fault(section: str) -> Fault:
    """What is said of a file with this section, before the rest of a small good one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.yaml"
        path.write_text(section + REST, encoding="utf-8")
        return faults_of(path, {})[0]


def _at(spec: ClusterSpec, place: str) -> object:
    content: object = spec.model_dump(mode="json", by_alias=True)
    for key in place.split("."):
        if isinstance(content, list):
            content = next((it for it in content if it.get("name") == key), None)
        elif isinstance(content, dict):
            content = content.get(key)
    return content
