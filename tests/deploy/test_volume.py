"""The volume of the weights: provisioned, claimed already, or on a source that the cluster file names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate

from kilocard.deploy.lint import lint_objects
from kilocard.deploy.lint.manifests import Object
from kilocard.deploy.targets import rendered
from kilocard.errors import KilocardError
from kilocard.specs.cluster import ClusterSpec, cluster_from

VERSION = "1.33"
NFS = {"nfs": {"server": "nfs.internal", "path": "/export/models"}, "size_gb": 300}
CSI = {
    "csi": {"driver": "efs.csi.aws.com", "handle": "fs-1::ap-2", "attributes": {"encryptInTransit": "true"}}
}
BUILD = Callable[[Mapping[str, str], str], list[Any]]


def a_cluster(volume: dict[str, Any], path: str = "/models/qwen3-8b") -> ClusterSpec:
    pool = {"name": "chat", "card": "h100-sxm", "replicas": 4, "engine": {"max_num_seqs": 64}}
    weights = {"path": path}
    return cluster_from(
        {"name": "test", "model": "qwen3-8b", "weights": weights, "pools": [pool],
         "deployment": {"volume": volume}}
    )  # fmt: skip


def objects_of(spec: ClusterSpec) -> list[dict[str, Any]]:
    files = rendered(spec, "kubernetes")
    return [it for name, text in files.items() if name.endswith(".yaml") for it in yaml.safe_load_all(text)]


def volume_and_claim(objects: list[dict[str, Any]]) -> tuple[Any, Any]:
    found = {it["kind"]: it for it in objects}
    return found.get("PersistentVolume"), found.get("PersistentVolumeClaim")


@pytest.mark.parametrize("volume", [NFS, CSI], ids=["nfs", "csi"])
def test_a_source_is_a_volume_that_only_our_claim_can_take(volume: dict[str, Any]) -> None:
    objects = objects_of(a_cluster(volume))
    held, claim = volume_and_claim(objects)
    assert claim["spec"]["volumeName"] == held["metadata"]["name"] and "namespace" not in held["metadata"]
    ours = {name: claim["metadata"][name] for name in ("namespace", "name")}
    assert held["spec"]["claimRef"] == ours
    assert claim["spec"]["storageClassName"] == held["spec"]["storageClassName"] == ""
    assert claim["spec"]["accessModes"] == held["spec"]["accessModes"] == ["ReadOnlyMany"]
    assert held["spec"]["capacity"] == claim["spec"]["resources"]["requests"]
    for it in (held, claim):
        validate(it, VERSION, strict=True)
    assert [str(it) for it in lint_objects([Object(it, "f.yaml", 1) for it in objects])] == []


def test_the_source_is_the_files() -> None:
    [nfs, csi] = [volume_and_claim(objects_of(a_cluster(it)))[0] for it in (NFS, CSI)]
    assert nfs["spec"]["nfs"] == {**NFS["nfs"], "readOnly": True}
    assert nfs["spec"]["capacity"] == {"storage": "280Gi"}
    assert csi["spec"]["csi"] == {
        "driver": "efs.csi.aws.com",
        "volumeHandle": "fs-1::ap-2",
        "readOnly": True,
        "volumeAttributes": {"encryptInTransit": "true"},
    }


def test_a_source_that_a_hub_fills_is_written() -> None:
    held, claim = volume_and_claim(objects_of(a_cluster(NFS, path="Qwen/Qwen3-8B")))
    assert claim["spec"]["accessModes"] == held["spec"]["accessModes"] == ["ReadWriteMany"]
    assert "readOnly" not in held["spec"]["nfs"]


def test_without_a_source_the_class_provisions() -> None:
    held, claim = volume_and_claim(objects_of(a_cluster({"storage_class": "shared"})))
    assert held is None
    assert claim["spec"]["storageClassName"] == "shared" and "volumeName" not in claim["spec"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert "storageClassName" not in volume_and_claim(objects_of(a_cluster({})))[1]["spec"]


def test_a_claim_that_is_there_is_only_named() -> None:
    objects = objects_of(a_cluster({"claim": "models"}))
    assert volume_and_claim(objects) == (None, None)
    [engine] = [it for it in objects if it["kind"] == "Deployment"]
    volumes = engine["spec"]["template"]["spec"]["volumes"]
    assert volumes[0]["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}


def test_the_place_to_try_has_a_volume_of_its_own(built: BUILD) -> None:
    files = rendered(a_cluster(NFS), "kubernetes")
    dev, real = (volume_and_claim(built(files, overlay)) for overlay in ("dev", "production"))
    assert dev[0]["metadata"]["name"] != real[0]["metadata"]["name"]
    for held, claim in ((dev[0], dev[1]), (real[0], real[1])):
        assert claim["spec"]["volumeName"] == held["metadata"]["name"]
        assert claim["metadata"]["namespace"] == held["spec"]["claimRef"]["namespace"]
        assert claim["spec"]["storageClassName"] == ""


@pytest.mark.parametrize(
    ("volume", "told"),
    [
        ({**NFS, "claim": "models"}, "claim and nfs each say where the volume comes from"),
        ({**NFS, **CSI}, "nfs and csi each say where"),
        ({**CSI, "storage_class": "fast"}, "csi and storage_class each say where"),
        ({"nfs": {"server": "a", "path": "models"}}, "nfs.path: write the whole path, from / on"),
        ({"nfs": {"server": "nfs://a", "path": "/m"}}, "a host is a name or an IP address"),
        ({"nfs": {"server": "a"}}, "nfs.path: missing, and needed"),
        ({"csi": {"driver": "a b", "handle": "x"}}, "csi.driver: String should match pattern"),
        ({"csi": {"driver": "a", "volume_handle": "x"}}, "did you mean 'handle'?"),
        ({"server": "a"}, "it stands in nfs"),
        ({"mount": "models"}, "mount: write the whole path"),
    ],
)
def test_a_volume_that_cannot_be_is_refused(volume: dict[str, Any], told: str) -> None:
    with pytest.raises(KilocardError) as refusal:
        a_cluster(volume)
    assert told in str(refusal.value) and "\n" not in str(refusal.value)
