"""CONTRIBUTING says what is so: its examples run, and its lists of keys are whole."""

import re
from typing import Any

import pytest
import yaml

from kilocard import facts
from kilocard.engine_model.calibration import SHIPPED
from kilocard.fleet import simulate_case
from kilocard.launch.stand_in import recorded_box
from kilocard.notebook.records import ROOT
from kilocard.specs import Case, EngineSettings, case_from
from kilocard.specs.demand import Demand, Distribution, Stage, SystemPrompts, Turns
from kilocard.specs.scenario import Changed, Fault, Scenario, Site, Storage
from kilocard.specs.target import Asked, Building, Failures, Offer, Proposal, Target

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CASE = {
    "model": "qwen3-8b",
    "card": "h100-sxm",
    "replicas": 2,
    "workload": {"requests": 40, "rate_per_s": 20, "prompt_tokens": 100, "output_tokens": 10},
}


def section(title: str) -> str:
    """What stands under a heading."""
    return TEXT.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def example(title: str, language: str) -> str:
    """The first code of that language under a heading."""
    found = re.search(rf"```{language}\n(.*?)```", section(title), flags=re.DOTALL)
    assert found, f"no {language} under {title}"
    return found[1]


@pytest.mark.parametrize("spec", [Case, EngineSettings, Demand, Stage, Distribution, SystemPrompts, Turns])
def test_every_key_of_a_case_is_told(spec: Any) -> None:
    told = set(re.findall(r"`([a-z_0-9]+)`", section("A case")))
    assert set(spec.model_fields) <= told


@pytest.mark.parametrize(
    ("title", "spec"),
    [("A scenario", it) for it in (Scenario, Fault, Changed, Site, Storage)]
    + [("A target", it) for it in (Target, Offer, Asked, Failures, Building, Proposal)],
)
def test_every_key_of_a_scenario_and_of_a_target_is_told(title: str, spec: Any) -> None:
    told = set(re.findall(r"`([a-z_0-9]+)`", section(title)))
    assert set(spec.model_fields) - {"at_s", "kind", "name", "nodes"} <= told


def test_the_defaults_of_an_engine_are_those_that_are_told() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", section("A case"), flags=re.MULTILINE))
    for name, field in EngineSettings.model_fields.items():
        if field.default is not None:
            assert rows[name] == str(field.default).lower()


def test_the_case_can_be_simulated() -> None:
    raw = yaml.safe_load(example("A case", "yaml"))
    raw["workload"]["stages"] = [stage | {"duration_s": 1} for stage in raw["workload"]["stages"]]
    _, result = simulate_case(case_from(raw))
    assert result["run"]["goodput_ratio"] > 0


def test_the_row_of_a_laptop_is_a_card(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "box.yaml").write_text(example("To add a calibration", "yaml"))
    monkeypatch.setenv("KILOCARD_FACTS", str(tmp_path / "box.yaml"))
    assert facts.card("my-laptop").memory_gb == 16


def test_the_stand_in_is_the_box_of_its_calibration() -> None:
    assert (SHIPPED / f"{recorded_box().id}.yaml").is_file()


def test_the_policy_of_a_script_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr("kilocard.specs.read_case", lambda _: case_from(CASE))
    exec(example("To add a policy", "python"), asked)
    assert asked["result"]["run"]["requests"] == 40
