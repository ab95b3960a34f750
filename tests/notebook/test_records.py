"""Runs are kept by box, found again, and a missing one says what to do."""

import pytest

from kilocard.errors import KilocardError
from kilocard.notebook import records
from kilocard.record import Kind, Run, Stamp


def run(box="some-box"):
    stamp = Stamp(Kind.EMULATED, "m", "engine", "1", "card", {"name": box}, "2026-11-29T00:00:00+00:00")
    return Run.from_rows([{"request_id": "1", "status": "ok"}], stamp)


def test_kept_is_found_again_with_its_stamp(tmp_path, monkeypatch):
    monkeypatch.setenv("KILOCARD_MEASURED", str(tmp_path))
    path = records.keep(run(), "trial")
    assert path == tmp_path / "some-box" / "trial.parquet"
    assert records.kept("trial").stamp == run().stamp


def test_a_box_is_told_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("KILOCARD_MEASURED", str(tmp_path))
    records.keep(run("a"), "trial")
    records.keep(run("b"), "trial")
    assert records.kept("trial", box="b").stamp.box["name"] == "b"


def test_this_box_comes_before_any_other(tmp_path, monkeypatch):
    monkeypatch.setenv("KILOCARD_MEASURED", str(tmp_path))
    here = records.describe_box()["name"]
    for name in ("a-box-first-in-the-alphabet", here):
        records.keep(run(name), "trial")
    assert records.kept("trial").stamp.box["name"] == here


def test_missing_run_and_sweep_say_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setenv("KILOCARD_MEASURED", str(tmp_path))
    with pytest.raises(KilocardError, match="make book"):
        records.kept("nothing-of-this-name")
    with pytest.raises(KilocardError, match="did you mean 'llama31_8b_h100_nim18'"):
        records.published_sweep("llama31_8b_h100_nim")
