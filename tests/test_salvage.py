"""A disk that says no costs nobody a measured run."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from kilocard.errors import KilocardError
from kilocard.record import Kind, Run, Stamp
from kilocard.salvage import require_room, save

RUN = Run.from_rows(
    [{"request_id": "a", "status": "ok"}],
    Stamp(Kind.MEASURED, "m", "e", "1", "c", {"name": "b"}, "2026-01-01"),
)


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[Path], bool]], None]:
    """Make writing fail, as a full disk does, for the paths that a test names."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write = Run.write

    def install(is_full: Callable[[Path], bool]) -> None:
        def guarded(self: Run, path: Path | str) -> Path:
            if is_full(Path(path)):
                raise KilocardError(f"cannot write {path}: No space left on device; name another --out")
            return write(self, path)

        monkeypatch.setattr(Run, "write", guarded)

    return install


def test_a_run_goes_where_it_was_wanted(tmp_path: Path) -> None:
    saved = save(RUN, tmp_path / "new" / "run.parquet")
    assert (saved.path, saved.problem) == (tmp_path / "new" / "run.parquet", "")


def test_a_full_disk_sends_it_elsewhere_under_a_free_name(
    tmp_path: Path, refuse: Callable[[Callable[[Path], bool]], None]
) -> None:
    refuse(lambda path: path.parent == tmp_path)
    first, second = (save(RUN, tmp_path / "run.parquet") for _ in range(2))
    assert first.path is not None and second.path is not None
    assert first.path != second.path
    assert "No space left" in first.problem
    assert len(Run.read(first.path).requests) == 1


def test_when_no_folder_takes_it_that_is_said(
    tmp_path: Path, refuse: Callable[[Callable[[Path], bool]], None]
) -> None:
    refuse(lambda path: True)
    saved = save(RUN, tmp_path / "run.parquet")
    assert saved.path is None
    assert str(tmp_path / "run.parquet") in saved.problem


def test_room_is_looked_for_before_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_room(tmp_path / "sub" / "run.parquet", rows=10)
    assert list((tmp_path / "sub").iterdir()) == []
    with pytest.raises(KilocardError, match="regular file"):
        require_room(tmp_path / "sub", rows=10)
    with pytest.raises(KilocardError, match="cannot be written"):
        require_room(Path("/proc/none/run.parquet"), rows=10)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(KilocardError, match="No space left"):
        require_room(tmp_path / "run.parquet", rows=10)


def test_only_what_is_needed_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "cwd", lambda: pytest.fail("a folder was asked for in vain"))
    assert save(RUN, tmp_path / "run.parquet").problem == ""


def test_a_folder_that_is_gone_and_nobodys_home_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuse: Callable[[Callable[[Path], bool]], None]
) -> None:
    refuse(lambda path: path.parent == tmp_path)

    def gone(*_: object) -> Path:
        raise FileNotFoundError(2, "No such file or directory")

    def nobody(*_: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "cwd", gone)
    monkeypatch.setattr("tempfile.gettempdir", gone)
    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.setattr("kilocard.salvage.DISK", tmp_path / "disk")
    saved = save(RUN, tmp_path / "run.parquet")
    assert saved.path == tmp_path / "disk" / "kilocard-salvaged-run.parquet"
    assert "No space left" in saved.problem


@pytest.mark.parametrize("letter", ["n", "ñ", "語"])
def test_a_name_as_long_as_a_file_system_takes_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, letter: str
) -> None:
    monkeypatch.chdir(tmp_path)
    name = letter * (240 // len(letter.encode())) + ".parquet"
    require_room(tmp_path / name, rows=1)
    assert save(RUN, tmp_path / name).path == tmp_path / name
    too_long = save(RUN, tmp_path / "folder" / (letter * 300 + ".parquet"))
    assert too_long.path is not None and too_long.path.parent == tmp_path
    assert "name too long" in too_long.problem


def test_a_folder_that_became_a_file_sends_it_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    require_room(tmp_path / "sub" / "run.parquet", rows=1)
    (tmp_path / "sub").rmdir()
    (tmp_path / "sub").write_text("taken")
    saved = save(RUN, tmp_path / "sub" / "run.parquet")
    assert saved.path == tmp_path / "kilocard-salvaged-run.parquet"
    assert (tmp_path / "sub").read_text() == "taken"


def test_home_is_spelt_out_and_a_link_is_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "far").mkdir()
    (tmp_path / "link.parquet").symlink_to(tmp_path / "far" / "run.parquet")
    require_room(Path("~/link.parquet"), rows=1)
    for _ in range(2):
        assert save(RUN, Path("~/link.parquet")).path == tmp_path / "link.parquet"
    assert (tmp_path / "link.parquet").is_symlink()
    assert sorted(path.name for path in (tmp_path / "far").iterdir()) == ["run.parquet"]
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for nowhere in ("~nobody-of-this-name/run.parquet", str(tmp_path / "loop" / "run.parquet")):
        with pytest.raises(KilocardError, match="cannot be written"):
            require_room(Path(nowhere), rows=1)
