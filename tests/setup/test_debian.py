"""What may not be installed is named, with the command that installs it."""

from pathlib import Path

import debian
import pytest


def test_without_the_right_to_install_each_loss_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "missing", lambda: ["chromium", "fonts-noto-cjk"])
    monkeypatch.setattr(debian, "may_install", lambda: False)
    monkeypatch.setattr(debian, "install", lambda _: pytest.fail("nothing may be installed"))
    said: list[str] = []
    debian.install_missing(said.append)
    assert said[0].startswith("LEFT OUT: the browser tests")
    assert said[-1].endswith("sudo apt-get install --no-install-recommends chromium fonts-noto-cjk")


def test_a_failed_install_is_no_end_but_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "missing", lambda: ["chromium"])
    monkeypatch.setattr(debian, "may_install", lambda: True)
    monkeypatch.setattr(debian, "install", lambda _: False)
    said: list[str] = []
    debian.install_missing(said.append)
    assert any(line.startswith("LEFT OUT") for line in said)


def test_nothing_is_done_where_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "missing", list)
    monkeypatch.setattr(debian, "may_install", lambda: pytest.fail("no need to ask"))
    said: list[str] = []
    debian.install_missing(said.append)
    assert said == []


def test_apt_is_asked_again_after_an_update_only_when_it_knows_no_such_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def runs(arguments: list[str]) -> bool:
        asked.append("update" if "update" in arguments else "install")
        return len(asked) > 1

    monkeypatch.setattr(debian, "_runs", runs)
    assert debian.install(["chromium"])
    assert asked == ["install", "update", "install"]


def test_what_an_install_cut_short_has_left_is_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def runs(arguments: list[str]) -> bool:
        asked.append(next(word for word in ("--configure", "update", "install") if word in arguments))
        return "--configure" in asked

    monkeypatch.setattr(debian, "_runs", runs)
    assert debian.install(["chromium"])
    assert asked == ["install", "update", "--configure", "install"]


def test_a_program_outside_the_users_path_is_no_loss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(debian, "SBIN", str(tmp_path))
    assert "haproxy" in debian.missing()
    (tmp_path / "haproxy").write_text("")
    (tmp_path / "haproxy").chmod(0o755)
    assert "haproxy" not in debian.missing()


@pytest.mark.parametrize(
    ("lacking", "systemd", "ended"),
    [(["haproxy"], True, True), (["haproxy"], False, False), (["chromium"], True, False)],
)
def test_the_service_that_the_package_starts_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacking: list[str], systemd: bool, ended: bool
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(debian, "missing", lambda: lacking)
    monkeypatch.setattr(debian, "may_install", lambda: True)
    monkeypatch.setattr(debian, "SYSTEMD", tmp_path if systemd else tmp_path / "none")
    monkeypatch.setattr(debian, "_runs", lambda arguments: asked.append(arguments) or True)
    debian.install_missing(lambda _: None)
    assert any("systemctl" in arguments for arguments in asked) is ended
