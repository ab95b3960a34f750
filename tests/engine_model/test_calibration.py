"""Calibration files: what ships can be read, what is written is read back, what is none is one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kilocard import facts
from kilocard.engine_model.calibration import (
    SHIPPED,
    Calibration,
    calibration_for,
    read_calibration,
    require_place,
    shown_from_one_run,
    write_calibration,
)
from kilocard.engine_model.coefficients import Coefficients
from kilocard.errors import KilocardError


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_what_ships_names_a_card_its_source_and_its_error(path: Path) -> None:
    found = read_calibration(path)
    assert found.card == path.stem
    assert (found.kind == "run") == bool(found.model)
    assert facts.card(path.stem) if found.kind == "card" else facts.model(found.model)
    assert found.source
    assert set(found.expected_error.values()) and max(found.expected_error.values()) < 0.2


def test_a_card_that_nobody_measured_gets_the_datasheet_s_error() -> None:
    found = calibration_for("l40s")
    assert found.kind == "datasheet"
    assert found.expected_error["e2e_s"] == 0.15
    assert "l40s" in found.name


def test_a_file_comes_before_what_ships(tmp_path: Path) -> None:
    path = tmp_path / "new" / "mine.yaml"
    about = {"model": "qwen3-8b", "weights": "bf16", "tensor_parallel_size": 2}
    mine = Calibration(
        "mine", "run", Coefficients(step_s=5e-3), "a run", {"e2e_s": 0.02}, card="h100-sxm", **about
    )
    write_calibration(path, "h100-sxm", mine, **about)
    assert [file.name for file in path.parent.iterdir()] == ["mine.yaml"]
    assert calibration_for("h100-sxm", str(path)) == mine
    assert calibration_for("H100-SXM", str(path), **about | {"model": "Qwen/Qwen3-8B"}) == mine


def mine(folder: Path, error: Mapping[str, float], **about: Any) -> str:
    path = folder / "mine.yaml"
    told = {"model": "qwen3-8b", "weights": "bf16", "tensor_parallel_size": 1} | about
    write_calibration(
        path, "h100-sxm", Calibration("mine", "run", Coefficients(), "a run", dict(error)), **told
    )
    return str(path)


@pytest.mark.parametrize(
    ("use", "note"),
    [
        ({"model": "smollm2-135m"}, "smollm2-135m instead of qwen3-8b"),
        ({"weights": "fp8"}, "fp8 instead of bf16"),
        ({"tensor_parallel_size": 4}, "TP 4 instead of 1"),
    ],
)
def test_of_another_model_or_layout_a_run_promises_what_a_card_s_calibration_has_shown(
    tmp_path: Path, use: dict[str, Any], note: str
) -> None:
    asked = {"model": "qwen3-8b", "weights": "bf16", "tensor_parallel_size": 1} | use
    found = calibration_for("h100-sxm", mine(tmp_path, {"e2e_s": 0.01, "ttft_s": 0.5}), **asked)
    card = read_calibration(SHIPPED / "h100-sxm.yaml").expected_error
    assert found.kind == "card"
    assert found.expected_error == {**card, "ttft_s": 0.5}
    assert note in found.name and note in found.source


def test_what_the_file_does_not_tell_is_not_compared(tmp_path: Path) -> None:
    file = mine(tmp_path, {"e2e_s": 0.01}, weights=None, tensor_parallel_size=None)
    assert calibration_for("h100-sxm", file, weights="fp8", tensor_parallel_size=8).kind == "run"


@given(error=st.floats(0, 2))
def test_on_another_card_it_is_a_datasheet_s_word(tmp_path_factory: Any, error: float) -> None:
    folder = tmp_path_factory.mktemp("moved")
    found = calibration_for("l4", mine(folder, {"e2e_s": error, "tpot_s": 0.001}), model="qwen3-8b")
    assert found.kind == "datasheet"
    assert found.expected_error == {"e2e_s": max(error, 0.15), "ttft_s": 0.15}
    assert "h100-sxm" in found.name and "l4" in found.name


def good() -> dict[str, Any]:
    return {"card": "h100-sxm", "kind": "run", "source": "s", "coefficients": Coefficients().as_dict()}


@pytest.mark.parametrize("name", Coefficients.needed())
def test_a_coefficient_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    content = good()
    del content["coefficients"][name]
    (tmp_path / "short.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(KilocardError, match=f"lack {name}"):
        read_calibration(tmp_path / "short.yaml")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"coefficients": {**Coefficients().as_dict(), "step": 1.0}}, "unknown coefficient 'step'.*'step_s'"),
        ({"coefficients": {**Coefficients().as_dict(), "step_s": "fast"}}, "coefficients.step_s"),
        ({"coefficients": {**Coefficients().as_dict(), "kv_efficiency": 3.0}}, "kv_efficiency is 3"),
        ({"expected_error": {"e2e_s": float("nan")}}, "expected_error.e2e_s"),
        ({"expected_error": {"e2e_s": float("inf")}}, "expected_error.e2e_s"),
        ({"expected_error": {"e2e_s": -0.1}}, "expected_error.e2e_s"),
        ({"kind": "guess"}, "kind"),
        ({"sauce": "s"}, "unknown key 'sauce'.*'source'"),
        ({"card": None}, "card"),
        ({"tensor_parallel_size": 0}, "tensor_parallel_size"),
    ],
)
def test_a_fault_of_a_file_names_its_key(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(good() | change))
    with pytest.raises(KilocardError, match=told):
        read_calibration(tmp_path / "bad.yaml")


def test_a_file_without_end_is_left() -> None:
    with pytest.raises(KilocardError, match="longer than"):
        read_calibration(Path("/dev/zero"))


def test_nothing_else_is_written_over(tmp_path: Path) -> None:
    run = tmp_path / "run.parquet"
    run.write_bytes(b"PAR1 measured")
    link = tmp_path / "link.yaml"
    link.symlink_to(run)
    for place in (run, link):
        with pytest.raises(KilocardError, match="no calibration: name another --out"):
            require_place(place)
    assert run.read_bytes() == b"PAR1 measured"
    require_place(Path(mine(tmp_path, {})))


@pytest.mark.parametrize("place", ["/", "/proc/none/mine.yaml", "/dev/null", "x" * 300])
def test_a_place_that_takes_nothing_is_refused(place: str) -> None:
    with pytest.raises(KilocardError, match="cannot write"):
        require_place(Path(place))


def test_what_cannot_be_written_whole_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(mine(tmp_path, {"e2e_s": 0.1}))
    before = path.read_text()

    def full(place: Path, text: str, **_: Any) -> None:
        place.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(KilocardError, match="No space left"):
        write_calibration(path, "h100-sxm", read_calibration(path))
    assert [file.name for file in tmp_path.iterdir()] == ["mine.yaml"]
    assert path.read_text() == before


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


def test_another_cards_link_follows_the_links_as_others_measured_them() -> None:
    own = calibration_for("h100-sxm").coefficients
    pcie = calibration_for("h100-pcie").coefficients
    links = facts.link("nvlink4"), facts.link("pcie5-x16")
    assert all(link.allreduce_share and link.allreduce_start_us for link in links)
    worse = links[1].allreduce_share / links[0].allreduce_share  # type: ignore[operator]
    assert pcie.link_efficiency == pytest.approx(own.link_efficiency * worse)
    assert pcie.weights_efficiency == own.weights_efficiency


def test_a_card_of_the_users_own_keeps_what_is_known() -> None:
    own = replace(facts.card("h100-sxm"), id="mine", link="pcie4-x16")
    reference = calibration_for("h100-sxm").coefficients
    assert calibration_for(own).coefficients.link_efficiency < reference.link_efficiency
    assert calibration_for("a name of nobody").coefficients == reference
