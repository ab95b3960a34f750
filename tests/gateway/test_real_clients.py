"""A real vLLM behind the gateway, and the clients that people have: all work as they are, and are told the
node."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilocard.gateway.process import AtWork, gateway_over
from kilocard.launch import Engine

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from client_calls import CLIENTS, TELLS_NODE, Asked

NODE, REQUESTS = "node-7", 2


@pytest.fixture(scope="module")
def gateway(book_engine: Engine) -> Iterator[AtWork]:
    pool = {"name": "chat", "cap": 8, "replicas": [{"url": book_engine.url, "node": NODE}]}
    with gateway_over({"name": "real", "model": book_engine.model, "pools": [pool]}) as running:
        yield running
        assert [row["in_flight"] for row in running.replicas()] == [0]


@pytest.mark.engine
@pytest.mark.parametrize("name", CLIENTS)
def test_it_works_and_learns_the_node(name: str, gateway: AtWork, book_engine: Engine) -> None:
    told = CLIENTS[name](Asked(gateway.url, book_engine.model, REQUESTS))
    assert told.bad == []
    assert told.good >= REQUESTS
    assert told.nodes == ({NODE} if name in TELLS_NODE else set())
