"""Calibration files: what ships can be read, what is written is read back, what is none is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kilocard import facts
from kilocard.engine_model.calibration import (
    SHIPPED,
    Calibration,
    calibration_for,
    read_calibration,
    shown_from_one_run,
    write_calibration,
)
from kilocard.engine_model.coefficients import Coefficients
from kilocard.errors import KilocardError


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_what_ships_names_a_card_its_source_and_its_error(path: Path) -> None:
    found = read_calibration(path)
    assert facts.card(found.name).id == path.stem
    assert found.kind == "card"
    assert found.source
    assert set(found.expected_error.values()) and max(found.expected_error.values()) < 0.2


def test_a_card_that_nobody_measured_gets_the_datasheet_s_error() -> None:
    found = calibration_for("l40s")
    assert found.kind == "datasheet"
    assert found.expected_error["e2e_s"] == 0.15
    assert "l40s" in found.name


def test_a_file_comes_before_what_ships(tmp_path: Path) -> None:
    mine = Calibration("mine", "run", Coefficients(step_s=5e-3), "a run", {"e2e_s": 0.02})
    write_calibration(tmp_path / "mine.yaml", "h100-sxm", mine, model="qwen3-8b", tensor_parallel_size=2)
    assert calibration_for("h100-sxm", str(tmp_path / "mine.yaml")) == mine


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2]",
        "card: h100-sxm",
        "card: h100-sxm\nkind: card\nsource: s\ncoefficients: {step_s: .nan}",
        "card: h100-sxm\nkind: card\nsource: s\ncoefficients: {speed: 1.0}",
        "card: h100-sxm\nkind: guess\nsource: s\ncoefficients: {}",
        "{" * 200_000,
        "!!python/object:os.system {}",
    ],
)
def test_what_is_no_calibration_is_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(KilocardError, match="is no calibration") as raised:
        read_calibration(path)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KilocardError, match="no calibration"):
        read_calibration(tmp_path / "none.yaml")


def test_what_one_run_s_calibration_has_shown_is_counted_not_wished() -> None:
    rows = [line.split(",") for line in (SHIPPED / "h100-sxm.errors.csv").read_text().splitlines()[1:]]
    e2e = sorted(
        abs(float(row[-1])) for row in rows if row[0] == "from one run" and row[3:5] == ["e2e_s", "mean"]
    )
    middle = (e2e[(len(e2e) - 1) // 2] + e2e[len(e2e) // 2]) / 2
    assert shown_from_one_run()["e2e_s"] == pytest.approx(middle, abs=5e-4)
