"""HAProxy's file: what it says of a cluster, and what the real program makes of it."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.deploy.haproxy import LONGEST_TIMER_S, render
from kilocard.deploy.haproxy_process import faults_of, running, statistics
from kilocard.errors import KilocardError
from kilocard.specs import ClusterSpec, cluster_from

PATIENCE_S = 20.0
POOL = {"name": "chat", "replicas": ["http://127.0.0.1:8001"]}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
DRAINING = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


def a_cluster(gateway: dict[str, Any] | None = None, **balancer: Any) -> ClusterSpec:
    return cluster_from(
        {"name": "test", "model": "m", "pools": [POOL], "gateway": gateway or {}, "balancer": balancer}
    )


def seconds_of(text: str, name: str) -> int:
    found = re.search(rf"^ +{name} (\d+)s$", text, re.MULTILINE)
    assert found, name
    return int(found[1])


@given(
    tokens=st.integers(1, 10_000_000),
    tpot_s=st.floats(0.001, 60),
    wait_s=st.floats(61, 86_400),
    total_s=st.none() | st.floats(100, 86_400),
)
def test_no_timer_is_shorter_than_the_longest_request(
    tokens: int, tpot_s: float, wait_s: float, total_s: float | None
) -> None:
    spec = a_cluster(
        {
            "limits": {"max_tokens": tokens},
            "timeouts": {"slowest_tpot_s": tpot_s, "total_s": total_s},
            "classes": {"batch": {"max_wait_s": wait_s}},
        }
    )
    text = render(spec)
    whole_s = wait_s + spec.gateway.timeouts.longest_s(tokens)
    for name in ("timeout client", "timeout server", "timeout tunnel", "hard-stop-after"):
        assert min(whole_s, LONGEST_TIMER_S) <= seconds_of(text, name) <= LONGEST_TIMER_S


def test_the_file_names_each_gateway_and_where_it_is_asked() -> None:
    text = render(
        a_cluster(
            {
                "gateways": 3,
                "places": ["10.0.0.1:8080", "[::1]:8080", {"host": "c", "port": 1, "ready_port": 2}],
            },
            connections=500,
            stats_port=9999,
        )
    )
    assert "    server gateway-0 10.0.0.1:8080\n" in text
    assert "    server gateway-1 [::1]:8080\n" in text
    assert "    server gateway-2 c:1 port 2\n" in text
    assert "    maxconn 500\n" in text
    assert "stats socket ipv4@127.0.0.1:9999 " in text
    assert "option abortonclose" in text and "balance leastconn" in text
    assert "maxconn" not in render(a_cluster()).partition("defaults")[0]


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,62}", fullmatch=True)


@given(NAMES, st.integers(1, 128))
def test_every_line_has_one_keyword_and_nothing_of_a_name(name: str, gateways: int) -> None:
    text = render(a_cluster({"gateways": gateways}).model_copy(update={"name": name}))
    heads = {line.split()[0] for line in text.splitlines() if line and not line.startswith((" ", "#"))}
    assert heads == {"global", "defaults", "frontend", "backend"}
    assert sum(line.strip().startswith("server ") for line in text.splitlines()) == gateways


@pytest.mark.haproxy
@settings(max_examples=20)
@given(
    st.integers(1, 4),
    st.sampled_from(["127.0.0.1", "0.0.0.0", "::1", "localhost"]),
    st.integers(1, 1000),
    st.floats(0.001, 86_400),
    st.integers(1, 10_000_000),
)
def test_the_program_takes_every_file_without_a_warning(
    gateways: int, host: str, connections: int, check_s: float, tokens: int
) -> None:
    spec = a_cluster(
        {"gateways": gateways, "limits": {"max_tokens": tokens}},
        host=host,
        connections=connections,
        check_every_s=check_s,
    )
    assert faults_of(render(spec)) == []


@pytest.mark.haproxy
def test_what_the_program_minds_is_told() -> None:
    assert any("unknown keyword" in line for line in faults_of("global\n  maxcon 3\n"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        free = free_port()
        with (
            pytest.raises(KilocardError, match=r"HAProxy does not start: .*127\.0\.0\.1"),
            running(render(a_cluster(port=port, stats_port=free)), free),
        ):
            pass


@pytest.mark.haproxy
def test_what_was_sent_to_a_dead_gateway_goes_to_the_other() -> None:
    with a_gateway() as one, a_gateway() as two, a_tier(one, two) as tier:
        wait_until(lambda: states(tier) == ["UP", "UP"])
        assert {tier.ask() for _ in range(8)} == {one.name, two.name}
        one.stop()
        assert {tier.ask() for _ in range(8)} == {two.name}
        wait_until(lambda: states(tier) == ["DOWN", "UP"])
        assert {tier.ask() for _ in range(8)} == {two.name}


@pytest.mark.haproxy
def test_a_gateway_that_drains_keeps_what_it_has_and_gets_nothing_new() -> None:
    with a_gateway() as one, a_gateway() as two, a_tier(one, two) as tier:
        wait_until(lambda: states(tier) == ["UP", "UP"])
        with tier.connected() as first, tier.connected() as second:
            held = {name_behind(first): first, name_behind(second): second}
            assert set(held) == {one.name, two.name}
            one.ready = DRAINING
            wait_until(lambda: states(tier) == ["DOWN", "UP"])
            assert {tier.ask() for _ in range(8)} == {two.name}
            assert name_behind(held[one.name]) == one.name
        one.ready = OK
        wait_until(lambda: states(tier) == ["UP", "UP"])
        assert one.name in {tier.ask() for _ in range(8)}


@pytest.mark.haproxy
def test_a_hang_up_of_the_client_reaches_the_gateway() -> None:
    with a_gateway() as one, a_tier(one) as tier:
        wait_until(lambda: states(tier) == ["UP"])
        with tier.connected() as client:
            name_behind(client)
            assert one.open_connections == 1
        wait_until(lambda: one.open_connections == 0)


class Gateway:
    """Answers /ready as told, and everything else with its name."""

    def __init__(self) -> None:
        self.ready = OK
        self.open_connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.name = str(self.port)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self) -> None:
        """As a killed process leaves it: nobody listens, and every connection is cut."""
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(accepted)
            threading.Thread(target=self._answer, args=(accepted,), daemon=True).start()

    def _answer(self, accepted: socket.socket) -> None:
        is_client = False
        try:
            while asked := accepted.recv(4096):
                if asked.startswith(b"GET /ready "):
                    accepted.sendall(self.ready)
                    break
                self.open_connections += not is_client
                is_client = True
                accepted.sendall(self.name.encode() + b"\n")
        except OSError:
            pass
        finally:
            self.open_connections -= is_client
            accepted.close()


class Tier:
    """HAProxy before some gateways."""

    def __init__(self, port: int, stats_port: int) -> None:
        self.port, self.stats_port = port, stats_port

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def ask(self) -> str:
        with self.connected() as client:
            return name_behind(client)


@contextmanager
def a_gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    try:
        yield gateway
    finally:
        gateway.stop()


@contextmanager
def a_tier(*gateways: Gateway) -> Iterator[Tier]:
    tier = Tier(free_port(), free_port())
    spec = a_cluster(
        {"gateways": len(gateways), "places": [f"127.0.0.1:{gateway.port}" for gateway in gateways]},
        port=tier.port,
        stats_port=tier.stats_port,
        check_every_s=0.1,
        connections=100,
    )
    with running(render(spec), tier.stats_port):
        yield tier


def name_behind(client: socket.socket) -> str:
    client.sendall(b"who\n")
    return client.recv(4096).decode().strip()


def states(tier: Tier) -> list[str]:
    rows = [row for row in statistics(tier.stats_port) if row["svname"].startswith("gateway-")]
    return [row["status"].split()[0] if row["check_status"] != "INI" else "INI" for row in rows]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])
