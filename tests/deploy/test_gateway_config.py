"""What the gateways of a Kubernetes cluster read: their file, and a policy of the user's own beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kilocard.deploy.kubernetes.gateway_config import MOST_BYTES, config
from kilocard.deploy.targets import rendered
from kilocard.errors import KilocardError
from kilocard.routing.own_file import policy_at
from kilocard.specs.cluster import ClusterSpec, read_cluster

POLICY = '''\
def last(replicas, arrival, random):
    """The last one that may be sent something."""
    best = -1
    for r in range(len(replicas.active)):
        if replicas.weight[r] > 0:
            best = r
    return best
'''
POOL = {"name": "chat", "card": "h100-sxm", "replicas": 4, "engine": {"max_num_seqs": 64}}


def a_cluster(folder: Path, gateway: dict[str, Any], policy: str = POLICY) -> ClusterSpec:
    (folder / "mine.py").write_text(policy, encoding="utf-8")
    content = {"name": "test", "model": "qwen3-8b", "pools": [POOL], "gateway": gateway}
    (folder / "cluster.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return read_cluster(folder / "cluster.yaml", {})


def parts_of(spec: ClusterSpec) -> tuple[Any, Any]:
    """The ConfigMap and the gateway's pod."""
    text = rendered(spec, "kubernetes")["base/gateway.yaml"]
    found = {it["kind"]: it for it in yaml.safe_load_all(text)}
    return found["ConfigMap"], found["StatefulSet"]["spec"]["template"]["spec"]


def test_a_policy_of_ones_own_is_carried_and_found_where_it_is_mounted(tmp_path: Path) -> None:
    carried, pod = parts_of(a_cluster(tmp_path, {"policy": "mine.py:last"}))
    told = yaml.safe_load(carried["data"]["cluster.yaml"])["gateway"]["policy"]
    path, _, name = told.rpartition(":")
    [mount] = [it for it in pod["containers"][0]["volumeMounts"] if path.startswith(it["mountPath"] + "/")]
    [volume] = [it for it in pod["volumes"] if it["name"] == mount["name"]]
    assert volume["configMap"] == {"name": carried["metadata"]["name"]}
    assert carried["data"][path.removeprefix(mount["mountPath"] + "/")] == POLICY
    assert name == "last" and str(tmp_path) not in str(carried)


def test_what_is_carried_is_read_as_it_was(tmp_path: Path) -> None:
    carried, _ = parts_of(a_cluster(tmp_path, {"policy": "mine.py:last"}))
    there = tmp_path / "there"
    there.mkdir()
    for key, text in carried["data"].items():
        (there / key).write_text(text.replace("/etc/kilocard/", f"{there}/"), encoding="utf-8")
    policy = read_cluster(there / "cluster.yaml", {}).gateway.policy
    assert policy == f"{there}/policy.py:last"
    assert callable(policy_at(policy))


def test_one_of_kilocards_own_carries_nothing(tmp_path: Path) -> None:
    carried, _ = parts_of(a_cluster(tmp_path, {"policy": "round-robin"}))
    assert set(carried["data"]) == {"cluster.yaml"}


@pytest.mark.parametrize(
    ("gateway", "policy", "told"),
    [
        ({"policy": "other.py:last"}, POLICY, r"cannot read the policy .*other\.py:last: No such file"),
        ({"policy": "mine.py:first"}, POLICY, "has no policy 'first'"),
        ({"policy": "mine.py:last"}, POLICY + f"# {'x' * MOST_BYTES}\n", "holds 1,048,576: .* policy.py has"),
        ({"policy": "mine.py:last"}, POLICY + f"KEY = 'hf_{'a' * 30}'\n", "looks like a secret"),
    ],
    ids=["not there", "no such function", "too long", "a secret"],
)  # fmt: skip
def test_what_a_config_map_cannot_hold_is_refused(
    tmp_path: Path, gateway: dict[str, Any], policy: str, told: str
) -> None:
    with pytest.raises(KilocardError, match=told) as refusal:
        config(a_cluster(tmp_path, gateway, policy))
    assert "\n" not in str(refusal.value)
