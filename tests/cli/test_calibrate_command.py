"""`kilocard calibrate`: from a sweep and from numbers; bad input is one line and exit 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilocard.cli import main
from kilocard.fleet import simulate_case
from kilocard.notebook.records import ROOT
from kilocard.record import Kind, Run
from kilocard.specs import case_from

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
    result = json.loads(capsys.readouterr().out)
    rows = result["rows"]
    assert sum(row["fitted"] for row in rows) == 6
    assert len(rows) > 12
    assert {row["concurrency"] for row in rows if row["fitted"]} == {1, 32}
    assert all(row["what"].startswith(f"{row['concurrency']} concurrent, ") for row in rows)
    assert "fitted to its levels 1,32" in result["source"]


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
        ["SWEEP", "--card", "h100-sxm", "--levels", "1,"],
        ["SWEEP", "--card", "h100-sxm", "--measured", "ttft_s=1"],
        ["CASE", "--measured", "ttft_s=1", "--card", "l4"],
        ["CASE", "--measured", "ttft_s=1", "--levels", "9"],
        ["CASE", "--measured", "/dev/zero"],
        ["CASE", "--measured", "ttft_s=0.04,e2e_s=400"],
        ["CASE", "--measured", "ttft_s=0.04", "--out", "/"],
        ["CASE", "--measured", "ttft_s=0.04", "--out", "CASE"],
        ["SWEEP", "--card", "h100-sxm", "--out", "SWEEP"],
    ],
)
def test_bad_input_is_one_line(arguments: list[str], case: str, capsys: pytest.CaptureFixture[str]) -> None:
    named = {"CASE": case, "SWEEP": str(SWEEP)}
    assert run("calibrate", *(named.get(word, word) for word in arguments)) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_calibration_that_cannot_be_kept_is_one_line(
    case: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kilocard.cli.calibration_report.calibrate_run", lambda *_: pytest.fail("it was fitted")
    )
    measured = ("--measured", "ttft_s=0.04,e2e_s=0.5")
    assert run("calibrate", case, *measured, "--out", "/proc/none/mine.yaml") == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.fixture
def keep(tmp_path: Path) -> Callable[..., str]:
    """Keeps a small simulated sweep, its times and its stamp changed."""
    stages = [{"concurrency": level, "requests": 20} for level in (1, 4)]
    workload = {"stages": stages, "prompt_tokens": 300, "output_tokens": 20}
    made, _ = simulate_case(case_from({"model": "qwen3-8b", "card": "h100-sxm", "workload": workload}))

    def kept(times: float = 1.0, **stamp: Any) -> str:
        table = made.requests.copy()
        table[["sent_s", "first_token_s", "last_token_s"]] *= times
        path = tmp_path / "run.parquet"
        Run(table, replace(made.stamp, **stamp)).write(path)
        return str(path)

    return kept


def test_no_kind_passes_for_another(keep: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    source = keep(kind=Kind.EMULATED, engine="kilocard-emulator", engine_version="0.1.0 at 2 x speed")
    out = Path(source).parent / "new" / "mine.yaml"
    assert run("calibrate", source, "--card", "h100-sxm", "--out", str(out)) == 0
    told = "emulated by kilocard-emulator 0.1.0 at 2 x speed"
    assert told in capsys.readouterr().out.splitlines()[0]
    assert told in yaml.safe_load(out.read_text())["source"]
    assert run("calibrate", keep(), "--card", "h100-sxm", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["run_kind"] == "simulated" and "simulated by" in result["source"]


def test_a_run_at_another_speed_does_not_fit(
    keep: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = Path(keep()).parent / "mine.yaml"
    assert run("calibrate", keep(1 / 20), "--card", "h100-sxm", "--out", str(out)) == 2
    said = capsys.readouterr().err
    assert "does not fit" in said and "speed" in said and len(said.strip().splitlines()) == 1
    assert not out.exists()


def simulated(folder: Path, stages: list[dict[str, Any]]) -> str:
    """A run of the simulator, in a file."""
    workload = {"stages": stages, "prompt_tokens": 300, "output_tokens": 20}
    made, _ = simulate_case(case_from({"model": "qwen3-8b", "card": "h100-sxm", "workload": workload}))
    return str(made.write(folder / "run.parquet"))


def test_each_level_is_named_by_its_load_and_by_its_part_in_the_fit(
    keep: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("calibrate", keep(), "--card", "h100-sxm", "--levels", "4") == 0
    out = capsys.readouterr().out
    assert "stage" not in out
    for line in out.splitlines():
        assert ("(fitted)" in line) == line.startswith("- 4 concurrent, "), line
        assert ("(left out of the fit)" in line) == line.startswith("- 1 concurrent, "), line


def test_rates_name_the_levels_of_an_open_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = simulated(tmp_path, [{"rate_per_s": rate, "requests": 20} for rate in (2.5, 8)])
    assert run("calibrate", source, "--card", "h100-sxm", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    named = {(row["what"].split(",")[0], row["stage"], row["rate_per_s"], row["concurrency"]) for row in rows}
    assert named == {("2.5 requests/s", 0, 2.5, None), ("8 requests/s", 1, 8.0, None)}


def test_a_level_of_too_few_requests_is_said_not_to_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = simulated(tmp_path, [{"concurrency": 1, "requests": 9}, {"concurrency": 4, "requests": 20}])
    assert run("calibrate", source, "--card", "h100-sxm", "--levels", "1,4", "--json") == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [
        "1 concurrent: fewer than 10 requests that ended well, so they do not count"
    ]


@pytest.mark.parametrize(("times", "name"), [(0.5, "weights_efficiency"), (1000, "step_s")])
def test_a_fit_that_no_engine_shows_is_noted(
    times: float, name: str, keep: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("calibrate", keep(times), "--card", "h100-sxm", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    notes = result["notes"]
    assert min(result["expected_error"].values()) >= 0.15
    assert any("far from what engines show" in note and name in note for note in notes)


def test_levels_of_an_open_loop_are_said_to_be_none(
    keep: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    rates = {"stages": {str(number): {"rate_per_s": 2.0} for number in (0, 1)}}
    source = keep(workload={"prompt_tokens": 300, "output_tokens": 20, **rates})
    assert run("calibrate", source, "--card", "h100-sxm", "--levels", "1") == 2
    assert "open loop" in capsys.readouterr().err


def test_what_is_written_promises_no_less_than_it_shows(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.yaml"
    assert run("calibrate", case, "--measured", "ttft_s=0.3,e2e_s=0.4", "--out", str(out), "--json") in (0, 2)
    said = capsys.readouterr()
    if out.exists():
        shown = yaml.safe_load(out.read_text())["expected_error"]
        for row in json.loads(said.out)["rows"]:
            assert abs(row["error"]) <= shown[row["what"].split()[2]] + 1e-9
    else:
        assert "does not fit" in said.err
