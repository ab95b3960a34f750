"""`kilocard book`: bad input is answered in one line."""

import json
from pathlib import Path

import pytest

from kilocard.cli import main


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["book", *arguments])
    out, err = capsys.readouterr()
    return int(stopped.value.code or 0), out, err


def test_a_misspelt_chapter_is_answered_with_the_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(["execute", "--only", "2-memory-leger"], capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "did you mean '2-memory-ledger'?" in err


def test_outside_a_checkout_it_says_where_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["build"], ["execute"], ["site"], ["look"]):
        code, _, err = run(command, capsys)
        assert code == 2
        assert "inside a checkout" in err


def test_executing_an_empty_book_reports_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "_toc.yml").write_text("root: index\n")
    (tmp_path / "index.md").write_text("# Empty\n")
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(["execute", "--json"], capsys)
    assert code == 0
    assert json.loads(out) == {"chapters": [], "site": None}
