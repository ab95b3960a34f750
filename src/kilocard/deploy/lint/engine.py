"""An engine in somebody's manifest: found by its image or its words, and what it is told."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kilocard.deploy.lint.manifests import Object, at, mapping, rows

CARD_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910", "intel.com/gpu", "google.com/tpu")
_VLLM = re.compile(r"vllm|sglang|text-generation-inference", re.IGNORECASE)
_SHORT = {"-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size", "-dp": "--data-parallel-size"}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Engine:
    """A container that serves a model, in its pod, in its object."""

    owner: Object
    template: Mapping[str, Any]
    container: Mapping[str, Any]

    @property
    def pod(self) -> Mapping[str, Any]:
        """The pod's spec."""
        return mapping(self.template.get("spec"))

    @property
    def labels(self) -> Mapping[str, Any]:
        """The pod's."""
        return mapping(at(self.template, "metadata", "labels"))

    @cached_property
    def words(self) -> list[str]:
        """Command and arguments, a shell's line taken apart."""
        told: list[str] = []
        for name in ("command", "args"):
            for word in self.container.get(name) or []:
                told += _taken_apart(str(word))
        return told

    def flag(self, name: str) -> str | None:
        """A flag's value, "" where it has none, None where it is not there."""
        for number, word in enumerate(self.words):
            head, equals, value = word.partition("=")
            head = _SHORT.get(head, head).replace("_", "-")
            if head != name:
                continue
            if equals:
                return value
            after = self.words[number + 1] if number + 1 < len(self.words) else ""
            return "" if after.startswith("-") else after
        return None

    def number(self, name: str, otherwise: int = 1) -> int:
        """A flag's whole number."""
        found = _NUMBER.fullmatch(self.flag(name) or "")
        return int(float(found[0])) if found else otherwise

    @property
    def ranks(self) -> int:
        """Cards that its layout takes on this node: TP x PP x DP, a LeaderWorkerSet's shared out."""
        told = self._who_is_told
        dp = told.number("--data-parallel-size-local", told.number("--data-parallel-size"))
        whole = told.number("--tensor-parallel-size") * told.number("--pipeline-parallel-size") * dp
        nodes = at(self.owner.spec, "leaderWorkerTemplate", "size")
        if self.owner.kind == "LeaderWorkerSet" and isinstance(nodes, int) and nodes > 0:
            return max(1, whole // nodes)
        return whole

    @property
    def _who_is_told(self) -> Engine:
        """The layout: a worker that only joins its leader is told none, and has the leader's."""
        if not self.is_worker or any(self.flag(name) for name in set(_SHORT.values())):
            return self
        leader = mapping(at(self.owner.spec, "leaderWorkerTemplate", "leaderTemplate"))
        found = (it for it in rows(at(leader, "spec", "containers")) if serves(it))
        return next((Engine(self.owner, leader, it) for it in found), self)

    def cards(self, what: str) -> int | None:
        """Of `limits` or `requests`; None where there is none."""
        resources = mapping(at(self.container, "resources", what))
        for name in CARD_RESOURCES:
            if name in resources and str(resources[name]).isdigit():
                return int(resources[name])
        return None

    @property
    def environment(self) -> dict[str, Any]:
        """Name → plain value; None for one that comes from elsewhere."""
        return {str(it.get("name")): it.get("value") for it in rows(self.container.get("env"))}

    @property
    def mounts(self) -> dict[str, str]:
        """Path → volume."""
        return {
            str(it.get("mountPath")): str(it.get("name")) for it in rows(self.container.get("volumeMounts"))
        }

    @property
    def volumes(self) -> dict[str, Mapping[str, Any]]:
        """By name."""
        return {str(it.get("name")): it for it in rows(self.pod.get("volumes"))}

    @property
    def is_worker(self) -> bool:
        """Whether it computes for a leader that answers."""
        both = mapping(self.owner.spec.get("leaderWorkerTemplate"))
        return self.owner.kind == "LeaderWorkerSet" and self.template is not mapping(
            both.get("leaderTemplate")
        )


def engines(objects: list[Object]) -> Iterator[Engine]:
    """Every container that serves a model."""
    for owner in objects:
        for template in owner.templates:
            for container in rows(at(template, "spec", "containers")):
                if serves(container):
                    yield Engine(owner, template, container)


def serves(container: Mapping[str, Any]) -> bool:
    """Whether it is an engine: by its image, or by the words that start it."""
    words = [str(it) for name in ("command", "args") for it in container.get(name) or []]
    has_card = any(name in mapping(at(container, "resources", "limits")) for name in CARD_RESOURCES)
    named = _VLLM.search(str(container.get("image", ""))) or _VLLM.search(" ".join(words))
    return bool(named) and (has_card or any("--model" in word or "serve" in word for word in words))


def _taken_apart(word: str) -> list[str]:
    if " " not in word and "\n" not in word:
        return [word]
    try:
        return shlex.split(word)
    except ValueError:
        return word.split()
