"""Replicas behind a name: they come and go with its addresses, and a broken name server takes none away."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml
from gateway_at_work import MODEL, PATIENCE_S, Engine, engine, eventually

from kilocard.gateway.discovery import Discovery, addresses
from kilocard.gateway.placing import Placing
from kilocard.gateway.process import gateway_over
from kilocard.gateway.registry import Registry
from kilocard.routing.replicas import Arrival
from kilocard.specs.cluster import ClusterSpec, cluster_from


class Log:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def note(self, row: dict[str, Any]) -> None:
        self.rows.append(row)


def a_spec(port: int = 8000, version: str = "v1", cap: int = 4) -> ClusterSpec:
    pool = {"name": "p", "cap": cap, "version": version, "replicas": {"dns": "engines", "port": port}}
    return cluster_from({"name": "t", "model": "m", "pools": [pool]})


class Scene:
    """A registry, and a name server that answers as it is told."""

    def __init__(self) -> None:
        self.answer: Sequence[str] | Exception = []
        self.asked: list[str] = []
        self.placing, self.log, self.now_s = Placing(), Log(), 0.0
        self.registry = Registry(self.placing, 0, 1)
        self.discovery = Discovery(self.registry, self.log, self._resolve)  # type: ignore[arg-type]
        self.follow(a_spec())

    def follow(self, spec: ClusterSpec) -> None:
        self.registry.adopt(spec)
        self.discovery.follow(spec)

    async def _resolve(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def ask(self, answer: Sequence[str] | Exception) -> list[str]:
        """The members after one more look at the name."""

        async def look() -> None:
            self.now_s += 10.0
            self.discovery.tick(self.now_s)
            while self.discovery._asking:
                await asyncio.sleep(0)

        self.answer = answer
        asyncio.run(look())
        self.registry.tick(self.now_s)
        return self.members

    @property
    def members(self) -> list[str]:
        return sorted(it.id for it in self.placing.stations[0].pool.members if not it.is_leaving)


def test_replicas_come_and_go_with_the_addresses() -> None:
    scene = Scene()
    assert scene.members == []
    assert scene.ask(["10.0.0.1"]) == ["10.0.0.1:8000"]
    assert scene.ask(["10.0.0.2", "10.0.0.1"]) == ["10.0.0.1:8000", "10.0.0.2:8000"]
    assert scene.ask(["10.0.0.2"]) == ["10.0.0.2:8000"]
    assert scene.asked == ["engines"] * 3


@pytest.mark.parametrize(
    "answer",
    [socket.gaierror(-2, "Name or service not known"), TimeoutError(), UnicodeError("label too long"), []],
)
def test_a_look_up_that_fails_or_finds_nothing_takes_nobody_away(answer: Exception | list[str]) -> None:
    scene = Scene()
    before = scene.ask(["10.0.0.1", "10.0.0.2"])
    for _ in range(3):
        assert scene.ask(answer) == before
    assert len(scene.log.rows) == 1 and scene.log.rows[0]["discovery"] == "p" and scene.log.rows[0]["error"]
    assert scene.ask(["10.0.0.2"]) == ["10.0.0.2:8000"]
    scene.ask(answer)
    assert len(scene.log.rows) == 2, "after it has worked, it is told again"


def test_doubles_are_one_and_any_order_is_the_same() -> None:
    scene = Scene()
    assert scene.ask(["10.0.0.2", "10.0.0.1", "10.0.0.2"]) == ["10.0.0.1:8000", "10.0.0.2:8000"]
    members = list(scene.placing.stations[0].pool.members)
    scene.ask(["10.0.0.1", "10.0.0.2"])
    assert scene.placing.stations[0].pool.members == members


def test_an_ipv6_address_is_one_too() -> None:
    scene = Scene()
    assert scene.ask(["fd00::1", "fe80::2%eth0", "10.0.0.1"]) == [
        "10.0.0.1:8000",
        "[fd00::1]:8000",
        "[fe80::2]:8000",
    ]
    hosts = {(it.host, it.port) for it in scene.placing.stations[0].pool.members}
    assert hosts == {("10.0.0.1", 8000), ("fd00::1", 8000), ("fe80::2", 8000)}


def test_one_that_is_gone_finishes_what_it_has() -> None:
    scene = Scene()
    scene.ask(["10.0.0.1", "10.0.0.2"])
    pool = scene.placing.stations[0].pool
    leaving = next(it for it in pool.members if it.host == "10.0.0.1")
    uncached = pool.sent(leaving, Arrival(1, 1, -1, 0), 0.0)
    assert scene.ask(["10.0.0.2"]) == ["10.0.0.2:8000"]
    assert leaving in pool.members and leaving.is_draining
    pool.ended(leaving, uncached, 1.0, scene.now_s)
    scene.ask(["10.0.0.2"])
    assert leaving not in pool.members


def test_one_that_comes_back_while_it_leaves_is_a_new_one() -> None:
    scene = Scene()
    scene.ask(["10.0.0.1"])
    pool = scene.placing.stations[0].pool
    old = pool.members[0]
    pool.sent(old, Arrival(1, 1, -1, 0), 0.0)
    scene.ask(["10.0.0.2"])
    assert scene.ask(["10.0.0.1"]) == ["10.0.0.1:8000"]
    assert old in pool.members and [it for it in pool.members if it.id == old.id and it is not old]


def test_another_file_changes_those_that_were_found() -> None:
    scene = Scene()
    scene.ask(["10.0.0.1"])
    scene.follow(a_spec(version="v2", cap=9))
    assert scene.members == ["10.0.0.1:8000"], "until the name is asked again"
    scene.ask(["10.0.0.1"])
    member = scene.placing.stations[0].pool.members[0]
    assert (member.version, member.whole_cap) == ("v2", 9)
    scene.follow(a_spec(port=9000))
    assert scene.ask(["10.0.0.1"]) == ["10.0.0.1:9000"]


def test_a_name_is_asked_no_more_often_than_it_says() -> None:
    async def look(scene: Scene, times_s: Sequence[float]) -> None:
        for now_s in times_s:
            scene.discovery.tick(now_s)
            await asyncio.sleep(0.01)

    scene = Scene()
    scene.answer = ["10.0.0.1"]
    asyncio.run(look(scene, [10.0, 11.0, 11.9, 12.0, 13.9]))
    assert len(scene.asked) == 2


def ask(url: str) -> int:
    connection = HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_S)
    body = json.dumps({"model": MODEL, "prompt": "a", "max_tokens": 2, "stream": True})
    try:
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_gateway_serves_what_a_name_stands_for() -> None:
    """The name of this machine, at the port of an engine."""

    def cluster(its: Engine) -> dict[str, Any]:
        pool = {"name": "p", "cap": 4, "replicas": {"dns": "localhost", "port": its.port, "every_s": 0.1}}
        return {"name": "t", "model": MODEL, "pools": [pool]}

    with engine() as first, engine() as second, gateway_over(cluster(first)) as gateway:
        assert ask(gateway.url) == 200 and len(first.heard) == 1
        gateway.reload({**cluster(second), "gateway": gateway_section(gateway.path)})
        assert eventually(lambda: ask(gateway.url) == 200 and second.heard)
        rows = {row["id"]: row for row in gateway.replicas()}
        assert f"127.0.0.1:{second.port}" in rows


def gateway_section(path: Path) -> dict[str, Any]:
    section: dict[str, Any] = yaml.safe_load(path.read_text())["gateway"]
    return section


def test_a_name_that_nobody_knows_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError):
        asyncio.run(addresses("no-such-name.invalid"))
    assert "127.0.0.1" in asyncio.run(addresses("localhost"))
