"""Where requests go: caps, the line and its order, refusals, pools, borrowing, groups, canaries."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from failing_engine import MODEL, Answer, FailingEngine, ask, failing_engines, in_flight
from gateway_at_work import eventually

from kilocard.gateway.process import AtWork, gateway_over

TIMEOUTS = {"connect_s": 1, "first_byte_s": 60, "between_chunks_s": 60}


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


@contextmanager
def gateway_of(pools: list[dict[str, Any]], **gateway: Any) -> Iterator[AtWork]:
    told = {"timeouts": TIMEOUTS, "policy": "least-active", **gateway}
    with gateway_over({"name": "t", "model": MODEL, "pools": pools, "gateway": told}) as running:
        assert eventually(lambda: all(row["state"] != "starting" for row in running.replicas()))
        yield running
        assert eventually(lambda: in_flight(running) == 0)


def pool_of(name: str, *engines: FailingEngine, **more: Any) -> dict[str, Any]:
    return {"name": name, "replicas": [f"http://{engine.id}" for engine in engines], **more}


def waiting(gateway: AtWork) -> int:
    return sum(gateway.order("/replicas")["waiting"].values())


def server_of(answer: Answer) -> str:
    assert answer.status == 200
    assert answer.last_event == b"data: [DONE]"
    return answer.headers["x-replica"]


def test_what_finds_no_room_waits_and_what_finds_no_place_is_refused(clients: ThreadPoolExecutor) -> None:
    with failing_engines(1) as [engine], gateway_of([pool_of("p", engine, cap=2)], queue={"limit": 2}) as gw:
        answers = [clients.submit(ask, gw, holds=True) for _ in range(2)]
        assert eventually(lambda: in_flight(gw) == len(engine.heard) == 2)
        answers += [clients.submit(ask, gw) for _ in range(2)]
        assert eventually(lambda: waiting(gw) == 2)
        refused = ask(gw)
        assert (refused.status, refused.error["code"]) == (503, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        assert len(engine.heard) == 2
        engine.gate.set()
        assert {server_of(answer.result()) for answer in answers} == {engine.id}
        assert waiting(gw) == 0


def test_the_better_class_goes_first_and_drives_out_the_last(clients: ThreadPoolExecutor) -> None:
    with failing_engines(1) as [engine], gateway_of([pool_of("p", engine, cap=1)], queue={"limit": 3}) as gw:

        def come(rank: str, length: int) -> Any:
            answer = clients.submit(ask, gw, headers={"X-Priority": rank}, max_tokens=length)
            assert eventually(lambda: waiting(gw) == min(3, length - 10) or answer.done())
            return answer

        held = clients.submit(ask, gw, holds=True)
        assert eventually(lambda: in_flight(gw) == 1)
        batch, later, async_ = come("batch", 11), come("batch", 12), come("async", 13)
        interactive = come("interactive", 14)
        driven_out = later.result()
        assert (driven_out.status, "retry-after" in driven_out.headers) == (503, True)
        engine.gate.set()
        for answer in (held, batch, async_, interactive):
            server_of(answer.result())
        assert [body.get("max_tokens") for body in engine.heard] == [None, 14, 13, 11]


def test_who_hangs_up_while_waiting_leaves_the_line(clients: ThreadPoolExecutor) -> None:
    from socket import create_connection

    with failing_engines(1) as [engine], gateway_of([pool_of("p", engine, cap=1)]) as gw:
        held = clients.submit(ask, gw, holds=True)
        assert eventually(lambda: in_flight(gw) == len(engine.heard) == 1)
        host, _, port = gw.url.removeprefix("http://").partition(":")
        with create_connection((host, int(port))) as client:
            content = b'{"model": "m", "prompt": "gone", "stream": true}'
            head = b"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
            client.sendall(head % len(content) + content)
            assert eventually(lambda: waiting(gw) == 1)
        assert eventually(lambda: waiting(gw) == 0)
        engine.gate.set()
        server_of(held.result())
        assert len(engine.heard) == 1


def test_long_requests_have_their_pool() -> None:
    with failing_engines(2) as [short, long]:
        pools = [pool_of("chat", short), pool_of("long", long, role="long")]
        with gateway_of(pools, long_tokens=100) as gw:
            assert server_of(ask(gw, max_tokens=90)) == short.id
            assert server_of(ask(gw, max_tokens=100)) == long.id
            assert server_of(ask(gw, max_tokens=4, prompt="word " * 100)) == long.id


def test_online_borrows_what_is_idle_and_offline_borrows_nothing(clients: ThreadPoolExecutor) -> None:
    with failing_engines(2) as [online, offline]:
        chat = pool_of("chat", online, cap=1, borrow_from=["night"])
        with gateway_of([chat, pool_of("night", offline, role="batch", cap=2)]) as gw:
            answers = [clients.submit(ask, gw, holds=True)]
            assert eventually(lambda: len(online.heard) == 1)
            answers.append(clients.submit(ask, gw, holds=True))
            assert eventually(lambda: len(offline.heard) == 1)
            third = clients.submit(ask, gw)
            assert eventually(lambda: waiting(gw) == 1)
            online.gate.set()
            assert server_of(third.result()) == online.id
            batch = {"X-Priority": "batch"}
            answers.append(clients.submit(ask, gw, headers=batch, holds=True))
            assert eventually(lambda: len(offline.heard) == 2)
            night = clients.submit(ask, gw, headers=batch)
            assert eventually(lambda: waiting(gw) == 1)
            assert in_flight(gw) == 2
            offline.gate.set()
            assert server_of(night.result()) == offline.id
            assert [server_of(it.result()) for it in answers] == [online.id, offline.id, offline.id]


def test_the_second_group_serves_once_the_first_is_down() -> None:
    with failing_engines(2) as [first, second]:
        pool = pool_of("p")
        pool["replicas"] = [
            {"url": f"http://{first.id}", "group": "here"},
            {"url": f"http://{second.id}", "group": "there"},
        ]
        with gateway_of([pool], failover=["here", "there"]) as gw:
            assert eventually(lambda: server_of(ask(gw)) == first.id)  # the second may have been up sooner
            assert {server_of(ask(gw)) for _ in range(10)} == {first.id}
            first.die()
            assert eventually(lambda: ask(gw).status == 200)
            assert {server_of(ask(gw)) for _ in range(10)} == {second.id}


def test_a_canary_gets_its_share_and_none_of_the_rest() -> None:
    with failing_engines(2) as [old, new]:
        pool = pool_of("p")
        pool["replicas"] = [
            {"url": f"http://{old.id}", "version": "v1"},
            {"url": f"http://{new.id}", "version": "v2"},
        ]
        with gateway_of([pool], canary={"version": "v2", "share": 1.0}) as gw:
            answers = [ask(gw) for _ in range(10)]
            assert {answer.headers["x-model-version"] for answer in answers} == {"v2"}
            gw.order("/canary", version="v2", share=0.5)
            assert {server_of(ask(gw)) for _ in range(60)} == {old.id, new.id}
            gw.order("/canary", version="v1", share=1.0)
            assert {server_of(ask(gw)) for _ in range(10)} == {old.id}
            gw.order("/canary", share=0)
            gw.order("/drain", id=old.id)
            assert server_of(ask(gw)) == new.id


def test_where_all_are_dead_it_says_so_at_once_and_serves_again_when_one_is_back() -> None:
    with failing_engines(1) as [engine], gateway_of([pool_of("p", engine)]) as gw:
        engine.die()
        assert eventually(lambda: gw.replicas()[0]["state"] == "down" or ask(gw).status == 502)
        refused = ask(gw)
        assert (refused.status, refused.error["code"]) == (503, "unavailable")
        assert int(refused.headers["retry-after"]) >= 1
        engine.come()
        assert eventually(lambda: ask(gw).status == 200)
