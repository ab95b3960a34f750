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
