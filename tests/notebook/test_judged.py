"""A judgement is kept with its stamp, and read back where it cannot be made."""

from pathlib import Path

import pytest

from kilocard.errors import KilocardError
from kilocard.notebook import judged as room
from kilocard.notebook.judged import Judged, judged, read_judged, write_judged
from kilocard.quality import BASELINE, Quality
from kilocard.record import Kind

ROW = Quality(
    scheme=BASELINE, bits_per_weight=16.0, weight_error=0.0, perplexity=40.0, perplexity_ratio=1.0,
    perplexity_ratio_error=0.0, same_choice=1.0, same_tokens=16.0, same_answers=1.0, valid_json=1.0,
    right_fields=0.8, text_tokens=639, answers=8, order_answers=("{}", "no"),
)  # fmt: skip


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = Judged([ROW], room._stamp())
    write_judged(kept, tmp_path / "box" / "quality.json")
    assert read_judged(tmp_path / "box" / "quality.json") == kept
    assert kept.stamp.kind is Kind.MEASURED


def test_what_is_made_here_is_kept_under_the_boxs_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILOCARD_MEASURED", str(tmp_path))
    monkeypatch.setattr(room, "judge", lambda schemes: [ROW])
    made = judged()
    assert read_judged(tmp_path / made.stamp.box["name"] / "quality.json") == made


def test_without_torch_the_books_record_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "find_spec", lambda name: None)
    found = judged()
    assert found.rows[0].scheme == BASELINE
    assert found.stamp.engine == "transformers"


def test_without_either_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "find_spec", lambda name: None)
    monkeypatch.setattr(room, "ROOT", tmp_path)
    monkeypatch.setenv("KILOCARD_MEASURED", str(tmp_path))
    with pytest.raises(KilocardError, match="install torch"):
        judged()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"stamp": {}, "rows": []}', '{"rows": [{}]}'])
def test_a_damaged_record_ends_in_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "quality.json"
    path.write_text(content)
    with pytest.raises(KilocardError, match="is no judgement"):
        read_judged(path)
