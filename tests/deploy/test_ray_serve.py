"""Ray Serve's file: the same pools under Ray's names, and nothing secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kilocard.deploy.ray_serve import ACCELERATORS, KEYS, render
from kilocard.facts import card
from kilocard.specs.cluster import cluster_from, read_cluster
from kilocard.specs.cluster.settings import EngineKeys

CLUSTERS = Path(__file__).parents[2] / "data" / "clusters"
OF_A_CONFIG = {
    *("model_loading_config", "engine_kwargs", "accelerator_type", "deployment_config", "runtime_env"),
}
OF_A_DEPLOYMENT = {
    *("num_replicas", "autoscaling_config", "max_ongoing_requests", "graceful_shutdown_timeout_s"),
    *("health_check_period_s", "health_check_timeout_s"),
}


def configs(name: str) -> list[dict[str, Any]]:
    [application] = yaml.safe_load(render(read_cluster(CLUSTERS / name, {})))["applications"]
    assert application["import_path"] == "ray.serve.llm:build_openai_app"
    told: list[dict[str, Any]] = application["args"]["llm_configs"]
    return told


@pytest.mark.parametrize("name", ["laptop.yaml", "one-box.yaml", "sixteen-nodes.yaml", "thousand-cards.yaml"])
def test_only_fields_that_ray_knows_are_written(name: str) -> None:
    told = configs(name)
    ids = [it["model_loading_config"]["model_id"] for it in told]
    assert len(set(ids)) == len(ids) > 0
    for it in told:
        assert set(it) <= OF_A_CONFIG
        assert set(it["deployment_config"]) <= OF_A_DEPLOYMENT


def test_layout_caps_and_scaling_carry_over() -> None:
    chat, large, _ = configs("sixteen-nodes.yaml")
    assert chat["accelerator_type"] == "H100"
    assert chat["deployment_config"]["max_ongoing_requests"] == 96
    assert chat["deployment_config"]["autoscaling_config"]["min_replicas"] == 42
    assert large["engine_kwargs"]["tensor_parallel_size"] == 4
    assert large["deployment_config"]["num_replicas"] == 12
    assert large["deployment_config"]["graceful_shutdown_timeout_s"] == 900


def test_every_card_with_a_name_is_one_of_ours_and_every_key_an_engine_setting() -> None:
    for name in ACCELERATORS:
        assert card(name).id == name
    assert set(KEYS) <= set(EngineKeys.model_fields)


def test_secrets_are_not_in_it() -> None:
    engine = {"environment": {"HF_TOKEN": {"variable": "HF_TOKEN"}, "OMP_NUM_THREADS": "4"}}
    spec = cluster_from(
        {"name": "t", "model": "m", "engine": engine, "pools": [{"name": "chat", "replicas": 1}]}
    )
    [application] = yaml.safe_load(render(spec))["applications"]
    assert application["args"]["llm_configs"][0]["runtime_env"] == {"env_vars": {"OMP_NUM_THREADS": "4"}}
