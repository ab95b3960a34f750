"""Scenarios and targets as users write them, and what is wrong with those that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kilocard.errors import KilocardError
from kilocard.specs.demand import Distribution
from kilocard.specs.scenario import read_scenario, scenario_from
from kilocard.specs.target import mean_tokens, read_target, target_from

DATA = Path(__file__).parents[2] / "data"
CLUSTER = {"name": "c", "model": "qwen3-8b", "pools": [{"name": "chat", "card": "h100-sxm", "replicas": 2}]}
LENGTHS = {"prompt_tokens": 5, "output_tokens": 5}
FLOW = {"requests": 10, "rate_per_s": 1, **LENGTHS}
SCENARIO = {"cluster": CLUSTER, "traffic": FLOW}
TARGET = {
    "model": "qwen3-8b",
    "cards": [{"card": "h100-sxm"}],
    "traffic": {"output_tokens_per_s": 1000},
    "prompt_tokens": 512,
    "output_tokens": 200,
    "slo": {"tpot_p99_s": 0.05},
}


@pytest.mark.parametrize("path", sorted((DATA / "scenarios").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_scenarios_are_read(path: Path) -> None:
    assert read_scenario(path).cluster.pools


@pytest.mark.parametrize("path", sorted((DATA / "targets").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_targets_are_read(path: Path) -> None:
    assert read_target(path).requests_per_s > 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"traffic": {**FLOW, "model": "other"}}, "traffic asks for other, and the cluster serves qwen3-8b"),
        ({"traffic": {**FLOW, "priority": {3: 1}}}, "priority 3 is none of 0"),
        ({"traffic": {**LENGTHS, "stages": [{"concurrency": 3, "requests": 9}]}}, "by themselves"),
        ({"faults": [{"kind": "crash", "at_s": 1}]}, "befalls one of replica, node; given: nothing"),
        ({"faults": [{"kind": "crash", "at_s": 1, "rack": 0}]}, "given: rack"),
        ({"faults": [{"kind": "power", "at_s": 1, "node": 0}]}, "a fault power lasts: give for_s"),
        ({"faults": [{"kind": "crash", "at_s": 1, "replica": "a", "repeats": 3}]}, "needs both every_s"),
        ({"faults": [{"kind": "melts", "at_s": 1, "replica": "a"}]}, "'crash', 'hang'"),
        ({"changes": [{"at_s": 1, "pool": "x"}]}, "changes name pool x, and there are chat"),
        ({"variance": 7}, "less than or equal to 1"),
        ({"workload": FLOW}, "it is called traffic"),
        ({"policy": "x"}, "gateway.policy"),
        ({"seed": -1}, "greater than or equal to 0"),
        ({"cluster": {**CLUSTER, "pools": []}}, "cluster"),
    ],
)  # fmt: skip
def test_scenarios_that_are_none_say_why(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(KilocardError) as caught:
        scenario_from({**SCENARIO, **changes})
    assert told in str(caught.value)


def test_a_scenarios_cluster_and_trace_stand_beside_it(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "name: c\nmodel: qwen3-8b\npools: [{name: a, replicas: 1, card: h100-sxm}]\n"
    )
    place = tmp_path / "s.yaml"
    place.write_text("cluster: c.yaml\ntraffic: {trace: t.csv}\ncalibration: k.yaml\n")
    its = read_scenario(place)
    assert its.cluster.pools[0].name == "a"
    assert its.traffic[0].trace == str(tmp_path / "t.csv")
    assert its.calibration == str(tmp_path / "k.yaml")
    for text in ("", "- 1\n", "traffic: 1\n"):
        place.write_text(text)
        with pytest.raises(KilocardError, match="no scenario: it needs the keys cluster and traffic"):
            read_scenario(place)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": "nobody"}, "unknown model 'nobody'"),
        ({"weights": "int3"}, "weights int3 are not planned with: use bf16, fp8, int4"),
        ({"cards": []}, "cards"),
        ({"cards": [{"card": "h100"}]}, "h100-sxm"),
        ({"traffic": {}}, "give one of them"),
        ({"traffic": {"output_tokens_per_s": 1, "requests_per_s": 1}}, "give one of them"),
        ({"output_tokens_per_s": 7}, "it stands in traffic"),
        ({"availability": 1}, "less than 1"),
        ({"headroom": -1}, "greater than or equal to 0"),
        ({"site": {"nodes": 2, "racks": 3}}, "3 racks for 2 nodes: some would be empty"),
        ({"site": {"cards": 2}}, "give nodes"),
        ({"slo": {}}, "at least one of"),
        ({"proposals": [{"name": "x", "replicas": 1}]}, "tokens_per_s_each"),
    ],
)
def test_targets_that_are_none_say_why(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(KilocardError) as caught:
        target_from({**TARGET, **changes})
    assert told in str(caught.value)


def test_requests_and_tokens_a_second_follow_from_each_other() -> None:
    its = target_from(TARGET)
    assert (its.requests_per_s, its.output_tokens_per_s) == (5, 1000)
    other = target_from({**TARGET, "traffic": {"requests_per_s": 5}})
    assert other.output_tokens_per_s == 1000


def test_the_mean_of_lengths_that_are_cut_off_is_less() -> None:
    told = Distribution(kind="lognormal", mean_tokens=200, cv=1, most_tokens=300)
    assert mean_tokens(told) < 180
    assert mean_tokens(Distribution(kind="fixed", tokens=7)) == 7
