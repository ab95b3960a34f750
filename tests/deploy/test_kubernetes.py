"""Kubernetes' manifests: taken by its schemas, built by kustomize, closed, and without a secret."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from kubernetes_validate import validate

from kilocard.deploy.kubernetes.engines import grace_s
from kilocard.deploy.lint import lint_objects
from kilocard.deploy.lint.manifests import Object
from kilocard.deploy.targets import rendered
from kilocard.errors import KilocardError
from kilocard.fleet.published import VARIABLE
from kilocard.specs.cluster import ClusterSpec, cluster_from, read_cluster

ROOT = Path(__file__).parents[2]
CLUSTERS = ROOT / "data" / "clusters"
EXAMPLES = ["one-box", "sixteen-nodes", "thousand-cards", "two-gateways"]
VERSION = "1.33"
Build = Callable[[Mapping[str, str], str], list[Any]]
CUSTOM = {
    "ScaledObject": "keda_scaledobjects",
    "LeaderWorkerSet": "lws",
    "ServiceMonitor": "servicemonitors",
    "PrometheusRule": "prometheusrules",
}
ACROSS: dict[str, Any] = {
    "name": "across",
    "model": "deepseek-v3",
    "weights": {"path": "/models/deepseek-v3"},
    "pools": [
        {
            "name": "large",
            "card": "h100-sxm",
            "nodes": 8,
            "replicas": 4,
            "engine": {"tensor_parallel_size": 8, "pipeline_parallel_size": 2},
        }
    ],
    "placement": {"together": "topology.kilocard.dev/switch"},
}


def spec_of(name: str) -> ClusterSpec:
    return cluster_from(ACROSS) if name == "across" else read_cluster(CLUSTERS / f"{name}.yaml", {})


@cache
def files_of(name: str) -> dict[str, str]:
    return rendered(spec_of(name), "kubernetes")


def objects_of(name: str) -> list[dict[str, Any]]:
    return objects_of_files(files_of(name))


def objects_in(spec: ClusterSpec) -> list[dict[str, Any]]:
    return objects_of_files(rendered(spec, "kubernetes"))


def objects_of_files(files: Mapping[str, str]) -> list[dict[str, Any]]:
    texts = [text for path, text in files.items() if path.endswith(".yaml")]
    return [it for text in texts for it in yaml.load_all(text, Loader=yaml.CSafeLoader)]


@pytest.mark.parametrize("name", [*EXAMPLES, "across"])
def test_kubernetes_takes_every_object_of_its_own(name: str) -> None:
    own = [it for it in objects_of(name) if it["kind"] not in {*CUSTOM, "Kustomization"}]
    assert len(own) > 5
    for content in own:
        validate(content, VERSION, strict=True)


@pytest.mark.parametrize("name", [*EXAMPLES, "across"])
def test_others_take_theirs(name: str) -> None:
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"{VARIABLE} names no folder with the schemas of custom objects")
    for content in objects_of(name):
        if schema := CUSTOM.get(content["kind"]):
            jsonschema.Draft7Validator(schema_of(Path(named) / "crds" / f"{schema}.yaml")).validate(content)


@cache
def schema_of(path: Path) -> Any:
    """The newest version that is served, closed: what it does not know is a fault."""
    definition = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    served = [it for it in definition["spec"]["versions"] if it["served"]][-1]
    schema = served["schema"]["openAPIV3Schema"]
    closed(schema["properties"]["spec"])
    return schema


def closed(schema: Any) -> None:
    if isinstance(schema, list):
        for inner in schema:
            closed(inner)
    if not isinstance(schema, dict):
        return
    is_open = schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("type") == "object" and "properties" in schema and not is_open:
        schema.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
    for inner in list(schema.values()):
        closed(inner)


@pytest.mark.parametrize("overlay", ["dev", "production"])
@pytest.mark.parametrize("name", [*EXAMPLES, "across"])
def test_kustomize_builds_both_overlays(built: Build, name: str, overlay: str) -> None:
    objects = built(files_of(name), overlay)
    for content in objects:
        if content["kind"] not in CUSTOM:
            validate(content, VERSION, strict=True)
    runs = [it for it in objects if it["kind"] in ("Deployment", "StatefulSet", "LeaderWorkerSet")]
    assert runs
    if overlay == "dev":
        assert {it["spec"]["replicas"] for it in runs} == {1}
        assert all(it["metadata"]["namespace"].endswith("-dev") for it in runs)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_gateways_file_is_one_and_holds_no_secret(name: str) -> None:
    [config] = [it for it in objects_of(name) if it["kind"] == "ConfigMap"]
    told = yaml.safe_load(config["data"]["cluster.yaml"])
    assert cluster_from(told).models == spec_of(name).models
    names = {it["metadata"]["name"] for it in objects_of(name) if it["kind"] == "Service"}
    for pool in told["pools"]:
        if isinstance(pool["replicas"], dict):
            assert pool["replicas"]["dns"] in names


def test_pods_are_given_more_time_than_they_need_to_end() -> None:
    spec = spec_of("sixteen-nodes")
    for content in objects_of("sixteen-nodes"):
        if content["kind"] == "Deployment":
            pod = content["spec"]["template"]["spec"]
            assert pod["terminationGracePeriodSeconds"] == grace_s(spec) > spec.lifecycle.drain_s + 15
            assert pod["containers"][0]["args"].count("--shutdown-timeout") == 1


def test_cards_are_the_layouts_and_a_replica_across_nodes_is_a_set() -> None:
    [large] = [it for it in objects_of("across") if it["kind"] == "LeaderWorkerSet"]
    assert large["spec"]["leaderWorkerTemplate"]["size"] == 2
    for template in ("leaderTemplate", "workerTemplate"):
        container = large["spec"]["leaderWorkerTemplate"][template]["spec"]["containers"][0]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == 8
    large_pool = [
        it for it in objects_of("sixteen-nodes") if it.get("metadata", {}).get("name") == "engine-large"
    ]
    [deployment] = [it for it in large_pool if it["kind"] == "Deployment"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 4
    assert "/dev/shm" in {it["mountPath"] for it in container["volumeMounts"]}


def test_a_groups_workers_follow_their_leader_and_leaders_keep_apart() -> None:
    content = copy.deepcopy(ACROSS)
    zone = "topology.kubernetes.io/zone"
    content["placement"] |= {"apart": [zone, "kubernetes.io/hostname"]}
    [group] = [it for it in objects_in(cluster_from(content)) if it["kind"] == "LeaderWorkerSet"]
    assert "exclusive" not in str(group)
    leader, worker = (
        group["spec"]["leaderWorkerTemplate"][it] for it in ("leaderTemplate", "workerTemplate")
    )
    assert "topologySpreadConstraints" not in worker["spec"] and "affinity" not in leader["spec"]
    spread = {it["topologyKey"]: it for it in leader["spec"]["topologySpreadConstraints"]}
    assert spread[zone]["whenUnsatisfiable"] == "DoNotSchedule"
    [near] = worker["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert near["topologyKey"] == ACROSS["placement"]["together"]
    assert near["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-index"]
    for chosen in (near["labelSelector"], spread[zone]["labelSelector"]):
        assert chosen["matchLabels"].items() <= leader["metadata"]["labels"].items()
        assert not chosen["matchLabels"].items() <= worker["metadata"]["labels"].items()


def test_a_worker_has_its_leaders_layout_also_for_the_linter() -> None:
    [group] = [it for it in objects_of("across") if it["kind"] == "LeaderWorkerSet"]
    assert classes_in([group]) & {"cards-not-layout", "small-shared-memory"} == set()
    group = copy.deepcopy(group)
    worker = group["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    worker["volumes"] = [it for it in worker["volumes"] if it["name"] != "shm"]
    assert "small-shared-memory" in classes_in([group])


def classes_in(objects: list[dict[str, Any]]) -> set[str]:
    return {it.rule for it in lint_objects([Object(it, "f.yaml", 1) for it in objects])}


def test_an_engine_on_one_node_needs_no_switch_of_its_own() -> None:
    for content in objects_of("sixteen-nodes"):
        assert content["kind"] != "Deployment" or "affinity" not in content["spec"]["template"]["spec"]


def test_a_group_that_scales_leaves_its_number_to_its_scaler() -> None:
    content = copy.deepcopy(ACROSS)
    content["pools"][0]["scaling"] = {"least": 2, "most": 4}
    objects = objects_in(cluster_from(content))
    [group] = [it for it in objects if it["kind"] == "LeaderWorkerSet"]
    assert "replicas" not in group["spec"]
    assert classes_in(objects) == set()


def test_secrets_are_named_and_nowhere_told() -> None:
    secret = "hf_" + "a" * 30
    spec = copy.deepcopy(ACROSS) | {
        "engine": {"environment": {"HF_TOKEN": {"variable": "HF_TOKEN"}}},
        "gateway": {"keys": {"file": "keys"}, "engine_key": {"variable": "ENGINE_KEY"}},
    }
    os.environ["HF_TOKEN"] = os.environ["ENGINE_KEY"] = secret
    try:
        told = rendered(cluster_from(spec), "kubernetes")
    finally:
        del os.environ["HF_TOKEN"], os.environ["ENGINE_KEY"]
    assert secret not in json.dumps(told)
    assert set(re.findall(r"--from-file=(\S+)=", told["secret.sh"])) == {"keys", "engine-key", "hf-token"}


def test_a_pool_without_a_card_is_refused() -> None:
    with pytest.raises(KilocardError, match="pool chat names no card"):
        rendered(spec_of("laptop"), "kubernetes")
