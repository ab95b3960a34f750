"""What a box says of itself, and what it keeps to itself."""

import json
import platform
import re
import subprocess

import pytest

from kilocard import box
from kilocard.box import describe_box


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
