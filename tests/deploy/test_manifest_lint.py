"""Manifests that others wrote: every class of mistakes is found where it was made, and none in our own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilocard.deploy.lint import CLASSES, lint_manifests, lint_objects
from kilocard.deploy.lint.manifests import Object
from kilocard.deploy.targets import rendered
from kilocard.errors import KilocardError
from kilocard.notebook.manifests import SOURCES
from kilocard.specs.cluster import ClusterSpec, cluster_from, read_cluster

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    ROOT / "data" / "clusters" / f"{it}.yaml" for it in ("one-box", "sixteen-nodes", "thousand-cards")
]
FILE = {
    "name": "test",
    "model": "qwen3-8b",
    "weights": {"path": "/models/qwen3-8b", "checksums": "SHA256SUMS"},
    "pools": [
        {
            "name": "chat",
            "card": "h100-sxm",
            "replicas": 4,
            "engine": {"tensor_parallel_size": 2, "max_num_seqs": 64},
            "scaling": {"least": 2, "most": 4},
        }
    ],
    "gateway": {"gateways": 2, "keys": {"file": "keys"}, "engine_key": {"variable": "KEY"}},
}
World = dict[str, dict[str, Any]]


def documents(spec: ClusterSpec) -> list[dict[str, Any]]:
    texts = rendered(spec, "kubernetes")
    return [
        it
        for name, text in texts.items()
        if name.endswith(".yaml")
        for it in yaml.load_all(text, Loader=yaml.CSafeLoader)
    ]


@cache
def without_mistakes() -> list[dict[str, Any]]:
    return documents(cluster_from(FILE))


def a_world() -> World:
    """By kind and name; its own, to make mistakes in."""
    return {
        f"{it['kind']} {it['metadata'].get('name', '')}": it
        for it in copy.deepcopy(without_mistakes())
        if "metadata" in it
    }


def classes_in(world: World) -> set[str]:
    return {it.rule for it in lint_objects([Object(content, "f.yaml", 1) for content in world.values()])}


def engine(world: World) -> dict[str, Any]:
    return world["Deployment engine-chat"]


def pod(world: World) -> dict[str, Any]:
    spec: dict[str, Any] = engine(world)["spec"]["template"]["spec"]
    return spec


def container(world: World) -> dict[str, Any]:
    first: dict[str, Any] = pod(world)["containers"][0]
    return first


def arguments(world: World, **changes: str | None) -> None:
    """Set flags, or take them away."""
    args = container(world)["args"]
    for name, value in changes.items():
        flag = f"--{name.replace('_', '-')}"
        if flag in args:
            at = args.index(flag)
            del args[at : at + 2]
        if value is not None:
            args += [flag, value]


def set_in(content: dict[str, Any], value: Any, *keys: str) -> None:
    for key in keys[:-1]:
        content = content.setdefault(key, {})
    content[keys[-1]] = value


MISTAKES: dict[str, Callable[[World], Any]] = {
    "cards-not-layout": lambda w: arguments(w, tensor_parallel_size="1"),
    "no-cards": lambda w: [
        container(w)["resources"][it].pop("nvidia.com/gpu") for it in ("limits", "requests")
    ],
    "cards-requested-not-limit": lambda w: set_in(container(w), 1, "resources", "requests", "nvidia.com/gpu"),
    "cards-by-hand": lambda w: container(w)["env"].append({"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}),
    "small-shared-memory": lambda w: pod(w)["volumes"].pop(),
    "any-card": lambda w: pod(w).pop("nodeSelector"),
    "no-memory-bound": lambda w: container(w)["resources"]["limits"].pop("memory"),
    "weights-not-mounted": lambda w: arguments(w, model="/elsewhere/qwen3-8b"),
    "weights-fetched": lambda w: arguments(w, model="Qwen/Qwen3-8B"),
    "no-readiness": lambda w: container(w).pop("readinessProbe"),
    "killed-while-loading": lambda w: container(w).pop("startupProbe"),
    "short-startup": lambda w: set_in(container(w), 3, "startupProbe", "failureThreshold"),
    "busy-is-dead": lambda w: set_in(container(w), 1, "livenessProbe", "periodSeconds"),
    "grace-under-drain": lambda w: set_in(pod(w), 60, "terminationGracePeriodSeconds"),
    "streams-cut": lambda w: arguments(w, shutdown_timeout=None),
    "asked-while-ending": lambda w: container(w).pop("lifecycle"),
    "loopback": lambda w: arguments(w, host="127.0.0.1"),
    "moving-image": lambda w: set_in(container(w), "vllm/vllm-openai:latest", "image"),
    "key-in-arguments": lambda w: arguments(w, api_key="s3cret"),
    "root": lambda w: [pod(w).pop("securityContext"), container(w).pop("securityContext")],
    "surge-on-full": lambda w: engine(w)["spec"].pop("strategy"),
    "recreate": lambda w: (
        set_in(engine(w)["spec"], {"type": "Recreate"}, "strategy")
        or set_in(engine(w)["spec"], 4, "replicas")
    ),
    "selector-mismatch": lambda w: set_in(engine(w)["spec"], {"app": "x"}, "selector", "matchLabels"),
    "service-chooses-nobody": lambda w: set_in(w["Service engine-chat"]["spec"], {"app": "x"}, "selector"),
    "service-port": lambda w: set_in(w["Service engine-chat"]["spec"]["ports"][0], 9000, "targetPort"),
    "balanced-connections": lambda w: [
        w["Service engine-chat"]["spec"].pop("clusterIP"),
        set_in(engine(w)["spec"], 4, "replicas"),
    ],
    "open-engines": lambda w: set_in(w["Service engine-chat"]["spec"], "NodePort", "type"),
    "no-network-policy": lambda w: [w.pop(it) for it in [it for it in w if it.startswith("NetworkPolicy")]],
    "one-node-volume": lambda w: [
        set_in(w["PersistentVolumeClaim weights"]["spec"], ["ReadWriteOnce"], "accessModes"),
        set_in(engine(w)["spec"], 4, "replicas"),
    ],
    "weights-of-the-node": lambda w: set_in(
        pod(w), [{"name": "weights", "hostPath": {"path": "/mnt"}}], "volumes"
    ),
    "no-disruption-budget": lambda w: [
        w.pop("PodDisruptionBudget engine-chat"),
        set_in(engine(w)["spec"], 4, "replicas"),
    ],
    "budget-allows-nothing": lambda w: set_in(
        w["PodDisruptionBudget engine-chat"]["spec"], 0, "maxUnavailable"
    ),
    "replicas-share-a-node": lambda w: [
        pod(w).pop("topologySpreadConstraints"),
        set_in(engine(w)["spec"], 4, "replicas"),
    ],
    "name-twice": lambda w: set_in(w, copy.deepcopy(engine(w)), "another"),
    "secret-in-file": lambda w: container(w)["env"].append({"name": "HF_TOKEN", "value": "abc"}),
    "scaled-by-processor": lambda w: set_in(
        w, hpa({"resource": {"name": "cpu"}}), "HorizontalPodAutoscaler a"
    ),
    "scaled-by-empty-queue": lambda w: set_in(
        w["ScaledObject engine-chat"]["spec"]["triggers"][0]["metadata"], "vllm:num_requests_waiting", "query"
    ),
    "scaled-twice": lambda w: set_in(w, hpa({}), "HorizontalPodAutoscaler a"),
    "fixed-and-scaled": lambda w: set_in(engine(w)["spec"], 4, "replicas"),
    "series-gone": lambda w: set_in(
        w["ScaledObject engine-chat"]["spec"]["triggers"][0]["metadata"], "vllm:gpu_cache_usage_perc", "query"
    ),
    "api-gone": lambda w: set_in(w["PodDisruptionBudget engine-chat"], "policy/v1beta1", "apiVersion"),
}


def hpa(metric: dict[str, Any]) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "engine-chat"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "namespace": "test"},
        "spec": {"scaleTargetRef": target, "metrics": [metric]},
    }


def test_every_class_has_its_mistake() -> None:
    assert set(MISTAKES) == set(CLASSES)
    assert len(CLASSES) >= 20


def test_a_world_without_mistakes_has_none() -> None:
    assert classes_in(a_world()) == set()


@pytest.mark.parametrize("rule", CLASSES)
def test_a_mistake_is_found(rule: str) -> None:
    world = a_world()
    MISTAKES[rule](world)
    assert rule in classes_in(world)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_nothing_is_wrong_with_our_own(path: Path) -> None:
    objects = [Object(it, "f.yaml", 1) for it in documents(read_cluster(path, {}))]
    assert [str(it) for it in lint_objects(objects)] == []


def test_a_manifest_of_eight_cards_for_one(tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text(SOURCES, encoding="utf-8")
    found = {it.rule: it for it in lint_manifests(tmp_path)}
    assert (
        "7 stay idle" in found["cards-not-layout"].told and "run 8 replicas" in found["cards-not-layout"].told
    )
    assert found["balanced-connections"].line == 21
    assert {"cards-by-hand", "moving-image", "no-readiness", "streams-cut", "weights-of-the-node"} <= set(
        found
    )
    assert {"selector-mismatch", "surge-on-full", "no-disruption-budget"} <= set(found)


@pytest.mark.parametrize(
    "text", ["a: [", "\x00", "- 1\n- {kind: Deployment}\n", "kind: Deployment\nspec: 7\n", "kind: [1]\n"]
)
def test_what_is_no_manifest_is_refused_or_left(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    try:
        lint_manifests(tmp_path)
    except KilocardError as error:
        assert "\n" not in str(error) and "a.yaml" in str(error)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KilocardError, match="is not there: name a folder"):
        lint_manifests(tmp_path / "x")
