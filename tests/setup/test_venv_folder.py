"""The environment is kept while it works, and made anew when it cannot."""

import sys
from pathlib import Path

import pytest
import venv_folder


def pretend_to_make(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    made: list[Path] = []
    monkeypatch.setattr(venv_folder, "_make", made.append)
    monkeypatch.setattr(venv_folder, "pip_of", lambda _: venv_folder.PIP)
    return made


def write_environment(folder: Path, python: str, home: Path) -> None:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "pip").write_text(f"#!{home}/bin/python\n")
    (folder / "bin" / "python").symlink_to(python)


def test_a_whole_environment_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pretend_to_make(monkeypatch)
    folder = tmp_path / ".venv"
    write_environment(folder, sys.executable, folder)
    assert venv_folder.ensure(folder, lambda _: None) == folder / "bin" / "python"
    assert made == []


@pytest.mark.parametrize("fault", ["absent", "moved", "broken"])
def test_one_that_cannot_work_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    made = pretend_to_make(monkeypatch)
    folder = tmp_path / ".venv"
    if fault != "absent":
        python = sys.executable if fault == "moved" else str(tmp_path / "gone")
        write_environment(folder, python, tmp_path / "elsewhere" if fault == "moved" else folder)
    venv_folder.ensure(folder, lambda _: None)
    assert made == [folder]


def test_where_no_environment_can_be_made_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venv_folder.sys, "executable", "/bin/false")
    monkeypatch.setattr(venv_folder.debian, "may_install", lambda: False)
    with pytest.raises(venv_folder.NoVenvError, match=r"apt-get install python3\.\d+-venv"):
        venv_folder.ensure(tmp_path / ".venv", lambda _: None)


def test_a_full_disk_is_named_and_nothing_is_asked_of_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venv_folder.sys, "executable", "/bin/false")
    monkeypatch.setattr(venv_folder, "LEAST_FREE_BYTES", 2**80)
    monkeypatch.setattr(venv_folder.debian, "install", lambda _: pytest.fail("apt cannot help"))
    with pytest.raises(venv_folder.NoVenvError, match=r"the disk of .* is full"):
        venv_folder.ensure(tmp_path / ".venv", lambda _: None)


def test_an_environment_whose_pip_is_gone_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pretend_to_make(monkeypatch)
    folder = tmp_path / ".venv"
    write_environment(folder, sys.executable, folder)
    monkeypatch.setattr(venv_folder, "pip_of", lambda _: None if not made else venv_folder.PIP)
    venv_folder.ensure(folder, lambda _: None)
    assert made == [folder]
