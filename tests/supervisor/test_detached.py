"""`kilocard up --detach` says what happens until all is ready, and leaves it running."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kilocard.errors import KilocardError
from kilocard.supervisor.detached import Log, start_detached
from kilocard.supervisor.process import on_free_ports, write_cluster

FILE: dict[str, Any] = {
    "name": "t",
    "model": "qwen3-8b",
    "pools": [{"name": "chat", "card": "h100-sxm", "replicas": 1}],
    "lifecycle": {"ready": {"every_s": 0.1, "successes": 1, "within_s": 60}, "drain_s": 5, "stop_s": 2},
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KILOCARD_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "c.yaml"
    write_cluster(path, on_free_ports(FILE))
    return path


def told_by(command: str, path: Path) -> str:
    argv = [sys.executable, "-m", "kilocard", command, str(path)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


def test_its_lines_are_said_until_all_is_ready_and_it_goes_on(path: Path) -> None:
    said: list[str] = []
    about = start_detached(path, is_emulated=True, say=said.append)
    try:
        assert about["models"] == ["qwen3-8b"]
        assert said.index("chat-0 starting") < said.index("chat-0 serving")
        argv = [sys.executable, "-m", "kilocard", "status", str(path), "--json"]
        shown = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
        assert json.loads(shown)["is_ready"]
        with pytest.raises(KilocardError, match=r"^the cluster t has a supervisor already.*\(log: "):
            start_detached(path, is_emulated=True, say=said.append)
    finally:
        told_by("down", path)
    assert "nothing runs" in told_by("status", path)
    assert not [line for line in said if line.startswith("kilocard: ")]


def test_a_line_is_read_once_and_when_it_is_whole(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", 4)
    log.path.write_bytes(b"old\nfirst\nsec")
    assert log.new_lines() == ["first"]
    with log.path.open("ab") as file:
        file.write(b"ond\n\xff\n")
    assert log.new_lines() == ["second", "�"]
    assert log.new_lines() == []
