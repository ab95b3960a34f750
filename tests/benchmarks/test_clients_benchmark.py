"""The benchmark of clients, without engines: what fails is told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import clients
from client_calls import CLIENTS, TELLS_NODE, Told


def row(name: str = "curl", **more: Any) -> dict[str, Any]:
    sound = {"good": 2, "bad": [], "nodes_told": ["n0"], "logged": {"ok": 2}, "nodes": {"n0": 1, "n1": 1}}
    return {"client": name, **sound, **more}


def test_what_fails_is_told() -> None:
    assert clients.misses([row(name) for name in CLIENTS]) == []
    assert clients.misses([row("vllm bench", nodes_told=[])]) == []
    assert clients.misses([row(bad=["a chat"])]) == ["curl: ['a chat']"]
    assert clients.misses([row(good=0)]) == ["curl: []"]
    assert clients.misses([row(logged={"ok": 1, "error": 1})]) == [
        "curl: the gateway tells of {'ok': 1, 'error': 1}"
    ]
    for name in TELLS_NODE:
        for nodes in ([], ["n7"]):
            assert clients.misses([row(name, nodes_told=nodes)]) == [f"{name}: it does not know the node"]
    assert clients.show(row()).endswith("requests by node: n0 1, n1 1; it knows of n0")


def test_an_answer_is_good_or_named() -> None:
    told = Told()
    told.note("text", "a chat")
    told.note("", "a completion")
    assert (told.good, told.bad) == (1, ["a completion"])
