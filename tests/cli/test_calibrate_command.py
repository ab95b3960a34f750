"""`kilocard calibrate`: from a sweep and from numbers; bad input is one line and exit 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from kilocard.cli import main
from kilocard.notebook.records import ROOT

CASE = {
    "model": "qwen3-8b",
    "card": "h100-sxm",
    "workload": {"requests": 600, "rate_per_s": 20, "prompt_tokens": 300, "output_tokens": 40},
}
SWEEP = next((ROOT / "data" / "measured").glob("*/sweep.parquet"))


@pytest.fixture
def case(tmp_path: Path) -> str:
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump(CASE))
    return str(path)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return int(stop.value.code or 0)


def test_numbers_beside_a_case_make_a_calibration_that_simulate_takes(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "mine.yaml")
    assert run("calibrate", case, "--measured", "ttft_s=0.04,e2e_s=0.5", "--out", out, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert [round(abs(row["error"]), 1) for row in result["rows"]] == [0.0, 0.0]
    Path(case).write_text(yaml.safe_dump({**CASE, "calibration": out}))
    assert run("simulate", case, "--json") == 0
    simulated = json.loads(capsys.readouterr().out)
    assert simulated["calibration"] == "mine"
    assert simulated["expected_error"]["e2e_s"] > 0
    assert simulated["run"]["e2e_s"]["mean"] == pytest.approx(0.5, rel=0.05)


def test_two_levels_of_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("calibrate", str(SWEEP), "--card", "h100-sxm", "--levels", "1,32", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert sum(row["fitted"] for row in rows) == 6
    assert len(rows) > 12


@pytest.mark.parametrize(
    "arguments",
    [
        ["CASE"],
        ["CASE", "--measured", "speed=3"],
        ["CASE", "--measured", "none.yaml"],
        ["CASE", "--measured", "ttft_s=-1"],
        ["none.yaml", "--measured", "ttft_s=1"],
        ["none.parquet", "--card", "h100-sxm"],
        ["SWEEP"],
        ["SWEEP", "--card", "h100"],
        ["SWEEP", "--card", "h100-sxm", "--levels", "3"],
        ["SWEEP", "--card", "h100-sxm", "--levels", "many"],
    ],
)
def test_bad_input_is_one_line(arguments: list[str], case: str, capsys: pytest.CaptureFixture[str]) -> None:
    named = {"CASE": case, "SWEEP": str(SWEEP)}
    assert run("calibrate", *(named.get(word, word) for word in arguments)) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_calibration_that_cannot_be_kept_is_one_line(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    measured = ("--measured", "ttft_s=0.04,e2e_s=0.5")
    assert run("calibrate", case, *measured, "--out", "/proc/none/mine.yaml") in (1, 2)
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
