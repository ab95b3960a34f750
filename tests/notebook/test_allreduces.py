"""What a chapter says of allreduces: measured and kept, read where it cannot be, and put into a step."""

from pathlib import Path

import pytest

from kilocard.collectives import Measured, Operation, SizeTime
from kilocard.errors import KilocardError
from kilocard.notebook import allreduces as room
from kilocard.notebook.allreduces import (
    LINKS,
    allreduces,
    decode_steps,
    errors_on_published,
    gained_percent,
    prefill_steps,
    published_allreduces,
    read_allreduces,
)
from kilocard.record import Kind, Stamp

STAMP = Stamp(Kind.MEASURED, "none", "gloo of torch", "2.13.0", "cpu", {"name": "box"}, "2026-11-30")
TIMES = tuple(SizeTime(size, 1e-4 + size * 1e-9, 9, 1e-4, 1.0) for size in (1024, 4096))
SEEN = Measured(Operation.ALLREDUCE, 2, TIMES, 5e9, True, 7.0, STAMP)


def test_what_is_measured_here_is_kept_under_the_boxs_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILOCARD_MEASURED", str(tmp_path))
    monkeypatch.setattr(room, "find_spec", lambda name: "there")
    monkeypatch.setattr(room, "measure", lambda ranks: SEEN)
    assert allreduces() == SEEN
    assert read_allreduces(tmp_path / "box" / "allreduce.json") == SEEN


def test_without_torch_the_books_record_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "find_spec", lambda name: None)
    found = allreduces()
    assert found.ranks == 2 and found.stamp.kind is Kind.MEASURED and len(found.times) > 10


def test_without_either_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "find_spec", lambda name: None)
    monkeypatch.setattr(room, "ROOT", tmp_path)
    monkeypatch.setenv("KILOCARD_MEASURED", str(tmp_path))
    with pytest.raises(KilocardError, match="install torch"):
        allreduces()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"operation": "shout"}'])
def test_a_damaged_record_ends_in_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "allreduce.json"
    path.write_text(content)
    with pytest.raises(KilocardError, match="is no measured allreduce"):
        read_allreduces(path)


def test_published_points_have_a_link_and_a_source() -> None:
    table = published_allreduces()
    assert set(table["link"]) <= set(LINKS)
    assert table.notna().all(axis=None) and (table["us"] > 0).all()
    assert not table.duplicated(["link", "cards", "software", "size_bytes"]).any()


def test_a_line_passes_near_the_points_of_its_source() -> None:
    off = errors_on_published("pcie4-x16", 4)
    assert abs(off[-1]) < 0.02 and max(map(abs, off)) < 0.3


def test_only_the_allreduces_differ_by_link() -> None:
    for steps in (decode_steps(LINKS, 32), prefill_steps(LINKS, 2048)):
        assert [it.own_ms for it in steps] == pytest.approx([steps[0].own_ms] * len(LINKS))
        assert all(0 < it.share_percent < 100 for it in steps)
        assert min(steps, key=lambda it: it.step_ms).link == "nvlink4"


def test_a_fast_bus_gains_more_the_more_is_said() -> None:
    gains = gained_percent((1, 8, 64), "pcie5-x16")
    assert gains == sorted(gains) and abs(gains[0]) < 5 < gains[1] < gains[2]
