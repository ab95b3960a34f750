"""What a box says of itself, and what it keeps to itself."""

import json
import platform
import re
import subprocess
from pathlib import Path

import pytest

from kilocard import box
from kilocard.box import describe_box, read_cards


def test_a_box_has_a_name_and_no_host_name() -> None:
    told = describe_box()
    assert re.fullmatch(r"[a-z0-9-]+", told["name"])
    assert told["cores"] >= 1
    assert told["memory_gib"] > 0
    assert platform.node() not in json.dumps(told)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("AMD EPYC 7763 64-Core Processor", "cpu-4core-amd-epyc-7763"),
        ("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "cpu-4core-intel-xeon-platinum-8481c"),
    ],
)
def test_a_name_leaves_out_trade_marks_and_clocks(
    monkeypatch: pytest.MonkeyPatch, model: str, name: str
) -> None:
    monkeypatch.setattr(box, "_cpu_model", lambda: model)
    monkeypatch.setattr(box, "_usable_cores", lambda: 4)
    monkeypatch.setattr(box, "_gpus", list)
    assert describe_box()["name"] == name


def test_cards_are_read_from_their_own_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = "NVIDIA H200, 143771, 570.1\nNVIDIA H200, [N/A], 570.1\nodd line\n"
    monkeypatch.setattr(box.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess((), 0, listing))
    told = describe_box()
    assert told["name"] == "2x-nvidia-h200"
    assert told["gpus"] == [
        {"name": "NVIDIA H200", "memory_gib": 140.4, "driver": "570.1"},
        {"name": "NVIDIA H200", "memory_gib": None, "driver": "570.1"},
    ]


def play(monkeypatch: pytest.MonkeyPatch, folder: Path, script: bytes) -> None:
    """Put an nvidia-smi on the path."""
    tool = folder / "nvidia-smi"
    tool.write_bytes(b"#!/bin/sh\n" + script)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("script", "memory_gib"),
    [
        (b"echo '\xff\xfe\x80, 1024, 1'", 1.0),
        ("echo 'H200, ²³, 1'".encode(), None),
        (b"echo 'H200, " + b"9" * 5000 + b", 1'", None),
        (b"echo 'H200, -5, 1'", None),
    ],
)
def test_whatever_the_tool_prints_the_box_is_described(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: bytes, memory_gib: float | None
) -> None:
    play(monkeypatch, tmp_path, script)
    assert [card["memory_gib"] for card in describe_box()["gpus"]] == [memory_gib]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (b"echo cannot reach the driver; exit 9", "exit 9: cannot reach the driver"),
        (b"exit 1", "failed (exit 1)"),
        (b"kill -SEGV $$", "exit -11"),
        (b"exec /bin/sleep 60", "no answer within 0.2 s"),
        (b"echo '\xff\xff'", "lists no card"),
    ],
)
def test_a_driver_that_fails_is_not_a_box_without_cards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: bytes, said: str
) -> None:
    monkeypatch.setattr(box, "NVIDIA_S", 0.2 if b"sleep" in script else 20.0)
    play(monkeypatch, tmp_path, script)
    cards = read_cards()
    assert cards.listed == describe_box()["gpus"] == []
    assert said in cards.failure
    assert "\n" not in cards.failure


def test_without_the_tool_nothing_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_cards() == box.Cards()
