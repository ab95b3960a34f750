"""Bad cluster files: every fault is told with its line and the way out, and no secret with it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from kilocard.cli import main
from kilocard.errors import KilocardError
from kilocard.specs.cluster import cluster_from, faults_of, read_cluster
from kilocard.specs.cluster.schema import cluster_schema

ROOT = Path(__file__).parents[2]
CLUSTERS = sorted((ROOT / "data" / "clusters").glob("*.yaml"))
SECRET = "hf_" + "Ab1" * 10
HEAD = """\
name: test
model: qwen3-8b
version: v1
"""
POOL = """\
pools:
  - name: chat
    card: h100-sxm
    nodes: 1
    cards_per_node: 8
    replicas: 4
"""

BAD = {
    "a wrong type": (HEAD + POOL + "    cap: many\n", 10, "cap", "should be a valid integer"),
    "an unknown key": (HEAD + POOL + "    min_worm: 1\n", 10, "pools.0", "did you mean 'min_warm'?"),
    "a degree that heads do not divide by": (
        HEAD + POOL + "    engine:\n      tensor_parallel_size: 3\n",
        11,
        "pools.0.engine.tensor_parallel_size",
        "does not divide the 32 attention heads",
    ),
    "more replicas than cards": (
        HEAD + POOL.replace("replicas: 4", "replicas: 9"),
        9,
        "pools.0.replicas",
        "at most 8 do; add nodes",
    ),
    "a replica over no whole nodes": (
        HEAD + POOL + "    engine: {tensor_parallel_size: 4, pipeline_parallel_size: 3}\n",
        10,
        "pools.0.engine",
        "whole nodes of 8 do not give",
    ),
    "a cap over what runs at once": (
        HEAD + POOL + "    cap: 64\n    engine: {max_num_seqs: 32}\n",
        10,
        "pools.0.cap",
        "give cap 32 or less",
    ),
    "a pool nobody routes to": (
        HEAD + POOL + "  - {name: other, card: l4, replicas: 1}\n",
        10,
        "pools.1.role",
        "nothing is ever sent to pool other: chat has role chat for qwen3-8b already",
    ),
    "a buffer nobody borrows from": (
        HEAD + POOL + "  - {name: spare, role: buffer, replicas: 1}\n",
        10,
        "pools.1.role",
        "name it in the borrow_from",
    ),
    "names twice": (
        HEAD + POOL + "  - {name: chat, role: batch, replicas: 1}\n",
        10,
        "pools.1.name",
        "two pools are",
    ),
    "a failover in a circle": (
        HEAD + POOL + "gateway:\n  failover: [east, east]\n",
        10,
        "gateway",
        "it would go round",
    ),
    "a secret in a variable's place": (
        HEAD + f"engine:\n  environment:\n    HF_TOKEN: {SECRET}\n" + POOL,
        6,
        "engine.environment.HF_TOKEN",
        "looks like a secret",
    ),
    "a secret among arguments": (
        HEAD + "engine:\n  extra_args: [--api-key, abc]\n" + POOL,
        4,
        "engine",
        "would show a secret",
    ),
    "a key in plain": (
        HEAD + POOL + f"gateway:\n  keys: {SECRET}\n",
        11,
        "gateway.keys",
        "does not stand in the cluster file",
    ),
    "ports that meet": (
        HEAD + POOL + "    port: 8078\n",
        10,
        "pools.0.port",
        ("gateway.port are both at port 8080"),
    ),
    "no warm one may be stopped": (
        HEAD + POOL + "    min_warm: 4\n",
        10,
        "pools.0.min_warm",
        "no change could be rolled out",
    ),
    "a roll of too many": (
        HEAD + POOL + "lifecycle:\n  roll: {share: 0.5}\n",
        11,
        "lifecycle.roll.share",
        "0.25",
    ),
    "an image that moves": (
        HEAD + POOL + "deployment:\n  engine_image: vllm/vllm-openai:latest\n",
        11,
        "deployment.engine_image",
        "another image tomorrow",
    ),
    "a sample that checks nothing": (
        HEAD + POOL + "lifecycle:\n  canary:\n    samples: [{prompt: a}]\n",
        12,
        "lifecycle.canary.samples.0",
        "give contains",
    ),
    "more tokens than the model was made for": (
        HEAD + "engine: {max_model_len: 1000000}\n" + POOL,
        4,
        "engine.max_model_len",
        "was made for",
    ),
    "scaling that has no end": (
        HEAD + POOL + "    scaling: {least: 1, most: 8, down: {utilization: 0.9}}\n",
        10,
        "pools.0.scaling",
        "up and down without end",
    ),
    "a volume from two places": (
        HEAD
        + POOL
        + "deployment:\n  volume:\n    claim: models\n    nfs: {server: nfs.internal, path: /models}\n",
        11,
        "deployment.volume",
        "claim and nfs each say where the volume comes from",
    ),
    "a share without a whole path": (
        HEAD + POOL + "deployment:\n  volume:\n    nfs: {server: nfs.internal, path: models}\n",
        12,
        "deployment.volume.nfs.path",
        "write the whole path, from / on",
    ),
    "sums of nothing": (
        HEAD + "weights: {path: Qwen/Qwen3-8B, checksums: S}\n" + POOL,
        4,
        "weights",
        "give path as a folder",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_fault_is_told_with_its_line_and_the_way_out(tmp_path: Path, name: str) -> None:
    text, line, key, told = BAD[name]
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    faults = faults_of(path, {})
    assert any(key in it.key and told in it.told for it in faults), [str(it) for it in faults]
    fault = next(it for it in faults if told in it.told)
    assert fault.where.endswith(f"line {line}"), str(fault)
    assert all(SECRET not in str(it) for it in faults)
    with pytest.raises(KilocardError) as refusal:
        read_cluster(path, {})
    assert SECRET not in str(refusal.value)


def test_every_fault_is_told_at_once_in_the_order_of_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HEAD + "porst: 1\n" + POOL + "    cap: many\ngateway: {prot: 1}\n")
    told = [str(it) for it in faults_of(path, {})]
    assert [it.partition("line ")[2].partition(":")[0] for it in told] == ["4", "11", "12"]


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.name)
def test_nothing_is_wrong_with_the_examples(path: Path) -> None:
    assert faults_of(path, {}) == []


def test_a_secret_anywhere_is_found_and_hidden(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HEAD + POOL + f"deployment: {{tolerations: [{SECRET}]}}\n")
    [fault] = faults_of(path, {})
    assert "looks like a secret" in fault.told and SECRET not in str(fault)


def test_three_sizes_of_one_file_by_the_environment_alone() -> None:
    path = ROOT / "data" / "clusters" / "one-box.yaml"
    sizes = {
        "small": {"KILOCARD__POOLS__CHAT__REPLICAS": "2", "KILOCARD__POOLS__CHAT__MIN_WARM": "1"},
        "usual": {},
        "tall": {"KILOCARD__ENGINE__MAX_NUM_SEQS": "256", "KILOCARD__POOLS__CHAT__CAP": "192"},
    }
    told = {name: read_cluster(path, environment) for name, environment in sizes.items()}
    assert [it.pools[0].count for it in told.values()] == [2, 6, 6]
    assert [it.engine_of(it.pools[0]).max_num_seqs for it in told.values()] == [128, 128, 256]


def test_pools_take_what_is_said_for_all() -> None:
    spec = cluster_from(
        {
            "name": "t",
            "model": "qwen3-8b",
            "version": "v7",
            "engine": {"max_num_seqs": 32, "dtype": "bfloat16"},
            "pools": [
                {"name": "a", "replicas": 2, "engine": {"max_num_seqs": 16}},
                {"name": "b", "role": "batch", "replicas": 1, "port": 9001},
                {"name": "c", "role": "long", "replicas": 3},
            ],
        }
    )
    assert [it.cap for it in spec.pools] == [16, 32, 32]
    assert [it.port for it in spec.pools] == [8001, 9001, 9002]
    assert {it.version for it in spec.pools} == {"v7"}
    assert spec.engine_of(spec.pools[0]).dtype == "bfloat16"
    assert [it.id for it in spec.pools[2].replicas] == ["c-0", "c-1", "c-2"]


def test_the_schema_is_one_and_takes_the_examples() -> None:
    schema = json.loads(json.dumps(cluster_schema()))
    jsonschema.Draft202012Validator.check_schema(schema)
    judge = jsonschema.Draft202012Validator(schema)
    for path in CLUSTERS:
        assert [it.message for it in judge.iter_errors(yaml.safe_load(path.read_text()))] == [], path.name
    assert list(judge.iter_errors({"name": "a", "model": "m", "pools": [{"name": "a", "replicas": "x"}]}))


def test_the_schema_beside_the_examples_is_the_one_that_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["lint", "--schema"])
    stored = (ROOT / "data" / "clusters" / "schema.json").read_text(encoding="utf-8")
    assert stored == capsys.readouterr().out, "kilocard lint --schema > data/clusters/schema.json"


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.name)
def test_every_example_names_its_schema_for_editors(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=schema.json"
    assert (path.parent / "schema.json").is_file()


def test_who_scales_is_told() -> None:
    told = cluster_schema()["$defs"]["Scaling"]["description"]
    assert "KEDA" in told and "`kilocard up` does not" in told
