"""What may not be installed is named, with the command that installs it."""

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
