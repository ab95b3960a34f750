"""Clients that break the rules: refused by rule, logged, bounded; and the next good request is served."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from broken_requests import CHUNKED, GET, NOT_ASKED, NOT_HTTP, POST
from gateway_at_work import Scene, at_work, completion, eventually, post, read_all
from hypothesis import given, settings
from hypothesis import strategies as st

LIMITS = {"header_bytes": 2048, "body_bytes": 65536, "header_s": 0.5, "body_s": 0.5, "connections": 1500}


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with at_work(cap=2, limits=LIMITS) as running:
        yield running


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    path = Path(tmp_path_factory.mktemp("keys")) / "keys"
    path.write_text(f"somebody sha256:{sha256(b'right').hexdigest()}\n")
    with at_work(awaits_models=False, keys={"file": str(path)}) as running:
        yield running


def asked(scene: Scene, raw: bytes, port: int = 0) -> bytes:
    """All that comes back. A client that sends too much may be cut off while it sends."""
    with scene.connect(port) as client:
        with suppress(ConnectionError):
            client.sendall(raw)
        return read_all(client)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def statuses(answer: bytes) -> list[int]:
    return [int(told) for told in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def serves(scene: Scene) -> bool:
    """Whether a good request is answered, and nothing else is left."""
    with scene.connect() as client:
        client.sendall(completion().replace(b"Host: h\r\n", b"Host: h\r\nConnection: close\r\n"))
        answer = read_all(client)
    return status(answer) == 200 and b"[DONE]" in answer and answer.endswith(b"0\r\n\r\n")


def refusals(scene: Scene) -> list[dict[str, Any]]:
    return [line for line in scene.lines() if line["outcome"] == "refused"]


def is_quiet(scene: Scene) -> bool:
    """Whether the log has every refusal that was counted."""
    return len(refusals(scene)) == scene.metric("refusals_total")


def is_empty(scene: Scene) -> bool:
    return eventually(lambda: scene.in_flight == 0 and scene.metric("connections") == 0)


@pytest.mark.parametrize("raw", NOT_HTTP.values(), ids=NOT_HTTP)
def test_what_is_no_request_is_refused_once_and_read_no_further(scene: Scene, raw: bytes) -> None:
    heard = len(scene.engine.heard)
    answer = asked(scene, raw + GET + b"Host: smuggled\r\n\r\n")
    assert status(answer) in {400, 404, 413, 431, 501, 505}
    assert len(statuses(answer)) == 1
    assert b"connection: close" in answer
    assert len(scene.engine.heard) == heard


def test_each_refusal_is_one_short_line_of_the_log_and_the_next_is_served(scene: Scene) -> None:
    sent = [*NOT_HTTP.values(), *(post(content, b"Connection: close\r\n") for content in NOT_ASKED.values())]
    assert eventually(lambda: is_quiet(scene))
    before = len(refusals(scene))
    told = [status(asked(scene, raw)) for raw in sent]
    assert eventually(lambda: len(refusals(scene)) >= before + len(sent))
    assert [line["status"] for line in refusals(scene)[before:]] == told
    assert all(len(json.dumps(line)) < 1000 for line in refusals(scene))
    assert serves(scene)
    assert is_empty(scene)


@pytest.mark.parametrize("content", NOT_ASKED.values(), ids=NOT_ASKED)
def test_a_body_that_asks_nothing_is_told_its_fault(scene: Scene, content: bytes) -> None:
    heard = len(scene.engine.heard)
    answer = asked(scene, post(content, b"Connection: close\r\n"))
    assert status(answer) in {400, 404}
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert len(answer) < 2000
    assert len(scene.engine.heard) == heard


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"X-Priority: urgent\r\n", 400),
        (b"X-Priority: " + b"a" * 1000 + b"\r\n", 400),
        (b"X-Priority: \xff\r\n", 400),
    ],
)
def test_a_priority_that_is_none_is_refused(scene: Scene, header: bytes, expected: int) -> None:
    content = b'{"model":"m","prompt":"a"}'
    assert status(asked(scene, post(content, header + b"Connection: close\r\n"))) == expected


@pytest.mark.parametrize(
    "raw",
    [
        GET.replace(b"/health", b"/nowhere") + b"Host: h\r\n\r\n",
        post(b"{}x"),
        post(b'{"model":"unknown"}'),
        completion().replace(b"Host", b"X-Priority: urgent\r\nHost"),
    ],
)
def test_a_refusal_tells_which_request_it_was(scene: Scene, raw: bytes) -> None:
    head = b"Connection: close\r\nX-Request-Id: mine\r\nHost"
    answer = asked(scene, raw.replace(b"Host", head, 1))
    assert status(answer) in {400, 404}
    assert b"\r\nx-request-id: mine\r\n" in answer


def test_what_is_expected_beside_a_word_to_go_on_is_refused(scene: Scene) -> None:
    assert status(asked(scene, post(b"{}", b"Expect: 200-ok\r\nConnection: close\r\n"))) == 417


@pytest.mark.parametrize("given", [b"a" * 129, b"a\tb", b"\xff\xfe", b"a b"])
def test_a_request_id_that_could_forge_a_line_is_replaced(scene: Scene, given: bytes) -> None:
    answer = asked(
        scene,
        completion().replace(
            b"Host: h\r\n",
            b"Host: h\r\nX-Request-Id: %b\r\n" % given + b"Traceparent: %b\r\nConnection: close\r\n" % given,
        ),
    )
    assert status(answer) == 200
    assert given not in answer.partition(b"\r\n\r\n")[0]
    assert given not in scene.engine.heard[-1].head or len(given) > 128
    assert b"x-request-id: " + given + b"\r\n" not in scene.engine.heard[-1].head


@pytest.mark.parametrize(
    "part",
    [b"GET /health", GET + b"Host: h\r\n", POST + b"Content-Length: 9000\r\n\r\nab", CHUNKED + b"999\r\na"],
)
def test_one_that_does_not_come_to_an_end_is_timed_out_and_told(scene: Scene, part: bytes) -> None:
    with scene.connect() as client:
        client.sendall(part)
        with suppress(ConnectionError):
            for _ in range(400):
                client.sendall(b"a")
                client.settimeout(0.05)
                with suppress(TimeoutError):
                    if client.recv(1, socket.MSG_PEEK):
                        break
        client.settimeout(20)
        assert status(read_all(client)) == 408
    assert eventually(lambda: refusals(scene)[-1]["status"] == 408)


def test_requests_in_one_piece_are_answered_in_order(scene: Scene) -> None:
    last = GET + b"Host: h\r\nConnection: close\r\n\r\n"
    answer = asked(scene, completion(max_tokens=3) + post(b"{}x") + completion(max_tokens=1) + last)
    answers = answer.split(b"HTTP/1.1 ")[1:]
    assert [it[:3] for it in answers] == [b"200", b"400", b"200", b"200"]
    assert [it.count(b'" a"') for it in answers] == [4, 0, 2, 0]


def test_what_follows_a_request_to_close_is_not_answered(scene: Scene) -> None:
    last = GET + b"Host: h\r\nConnection: close\r\n\r\n"
    assert len(statuses(asked(scene, last * 5))) == 1


def test_more_requests_in_one_piece_than_anybody_needs_end_the_connection(scene: Scene) -> None:
    answer = asked(scene, completion(ttft_s=0.2) + (GET + b"Host: h\r\n\r\n") * 100)
    assert answer.startswith(b"HTTP/1.1 200")
    assert len(statuses(answer)) == 1


def test_bodies_that_wait_behind_an_answer_are_bounded_together(scene: Scene) -> None:
    held = post(b'{"prompt":"' + b"a" * 30000 + b'"}')
    answer = asked(scene, completion(ttft_s=0.2) + held * 10)
    assert len(statuses(answer)) == 1
    assert eventually(lambda: any(line["status"] == 413 for line in scene.lines()[-3:]))


@pytest.mark.parametrize("ending", ["close", "half", "reset"])
@pytest.mark.parametrize(
    "pace", [{"ttft_s": 60}, {"max_tokens": 500, "tpot_s": 0.3}], ids=["first", "stream"]
)
def test_a_hang_up_reaches_the_engine(scene: Scene, ending: str, pace: dict[str, float]) -> None:
    heard = len(scene.engine.heard)
    client = scene.connect()
    client.sendall(completion(**pace))
    assert eventually(lambda: len(scene.engine.heard) > heard)
    mine = scene.engine.heard[-1]
    if "max_tokens" in pace:
        assert eventually(lambda: mine.written == 2)
    _leave(client, ending)
    assert eventually(lambda: mine.hung_up)
    assert mine.written <= 3
    assert eventually(lambda: scene.in_flight == 0)
    assert eventually(lambda: scene.lines()[-1]["outcome"] == "cancelled")
    client.close()


@pytest.mark.parametrize("ending", ["close", "half", "reset"])
def test_a_hang_up_in_the_line_never_reaches_the_engine(scene: Scene, ending: str) -> None:
    heard = len(scene.engine.heard)
    holding = [scene.connect() for _ in range(2)]
    for client in holding:
        client.sendall(completion(ttft_s=60))
    assert eventually(lambda: len(scene.engine.heard) == heard + 2)
    waiting = scene.connect()
    waiting.sendall(completion(prompt="waits"))
    assert eventually(lambda: scene.metric("waiting") == 1)
    _leave(waiting, ending)
    assert eventually(lambda: scene.metric("waiting") == 0)
    for client in holding:
        client.close()
    assert serves(scene)
    assert all(it.body["prompt"] != "waits" for it in scene.engine.heard[heard:])
    assert is_empty(scene)
    waiting.close()


def _leave(client: socket.socket, how: str) -> None:
    if how == "half":
        client.shutdown(socket.SHUT_WR)
    else:
        if how == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        client.close()


def test_two_thousand_idle_connections_are_bounded_and_the_idlest_make_room(scene: Scene) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(scene.connect()) for _ in range(2000)]
        assert eventually(lambda: scene.metric("connections") == LIMITS["connections"])
        idle[-1].sendall(GET + b"Host: h\r\n\r\n")
        assert idle[-1].recv(9) == b"HTTP/1.1 "
        with suppress(ConnectionError):
            assert idle[0].recv(1) == b""
        assert serves(scene)
    assert is_empty(scene)


def test_idle_connections_do_not_keep_the_operator_out(scene: Scene) -> None:
    port = int(scene.gateway.about["admin"].rpartition(":")[2])
    with ExitStack() as stack:
        idle = [stack.enter_context(scene.connect(port)) for _ in range(400)]
        assert scene.gateway.replicas()
        with suppress(ConnectionError):
            assert idle[0].recv(1) == b""


def test_bodies_of_all_clients_together_are_bounded() -> None:
    with at_work(limits={"held_bytes": 100_000, "body_bytes": 65_536}) as scene, ExitStack() as stack:
        part = POST + b"Content-Length: 64000\r\n\r\n" + b"a" * 60_000
        stack.enter_context(scene.connect()).sendall(part)
        time.sleep(0.2)
        answer = asked(scene, part)
        assert status(answer) == 503
        assert b"\r\nretry-after: 1\r\n" in answer
        assert serves(scene)
        stack.close()
        for _ in range(5):
            assert status(asked(scene, post(b"{" + b" " * 60_000, b"Connection: close\r\n"))) == 400


def test_where_nobody_is_idle_a_newcomer_is_told_to_come_again() -> None:
    with at_work(limits={"connections": 3}) as scene, ExitStack() as stack:
        busy = [stack.enter_context(scene.connect()) for _ in range(3)]
        for client in busy:
            client.sendall(completion(ttft_s=60))
        assert eventually(lambda: len(scene.engine.heard) == 3)
        answer = read_all(stack.enter_context(scene.connect()))
        assert status(answer) == 503
        assert b"\r\nretry-after: 1\r\n" in answer
        assert eventually(lambda: any(line["status"] == 503 for line in scene.lines()))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Authorization: Bearer wrong\r\n",
        b"Authorization: Bearer \xff\r\n",
        b"Authorization: Basic right\r\n",
        b"Authorization: right\r\n",
        b"X-Api-Key: righ\r\n",
        b"X-Api-Key: " + b"a" * 1500 + b"\r\n",
    ],
)
def test_a_wrong_key_opens_nothing(keyed: Scene, header: bytes) -> None:
    answer = asked(keyed, completion().replace(b"Host: h\r\n", b"Host: h\r\nConnection: close\r\n" + header))
    assert status(answer) == 401
    models = b"GET /v1/models HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + header + b"\r\n"
    assert status(asked(keyed, models)) == 401
    assert not keyed.engine.heard


def test_wrong_keys_are_logged_without_the_key(keyed: Scene) -> None:
    lines = len(refusals(keyed))
    with keyed.connect() as client:
        client.sendall(GET.replace(b"/health", b"/v1/models") + b"Host: h\r\nX-Api-Key: Some-Secret\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 401"
    assert eventually(lambda: len(refusals(keyed)) > lines)
    assert "Some-Secret" not in json.dumps(keyed.lines())


@pytest.mark.parametrize("host", [b"evil.example", b"127.0.0.1.evil.example", b"evil.example:80", b""])
def test_the_operators_port_takes_no_order_through_a_foreign_name(scene: Scene, host: bytes) -> None:
    port = int(scene.gateway.about["admin"].rpartition(":")[2])
    raw = b"POST /drain HTTP/1.1\r\nHost: %b\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}" % host
    assert status(asked(scene, raw, port)) in {400, 403, 421}
    assert serves(scene)


WORDS = b"GET |POST |/v1/completions|/health| HTTP/1.1| HTTP/1.0|:|-1|5|{}| |Content-Length: "
LINES = b"|Host: h|Transfer-Encoding: chunked|0|1|Connection: close|Expect: 100-continue|Upgrade: h2c"
TOKENS = st.sampled_from(
    [
        *WORDS.split(b"|"),
        *(line + b"\r\n" for line in LINES.split(b"|")),
        *(b"\r", b"\n", b"\x00", b"\r\n\r\n", b"0\r\n\r\n"),
        *(completion(), CHUNKED, GET + b"Host: h\r\n\r\n"),
    ]
)
RAW = st.lists(st.one_of(TOKENS, st.binary(max_size=30)), max_size=20)


@settings(max_examples=150)
@given(pieces=RAW, cut=st.integers(0, 20))
def test_whatever_comes_the_gateway_answers_or_closes_and_goes_on(
    scene: Scene, pieces: list[bytes], cut: int
) -> None:
    with scene.connect() as client:
        with suppress(ConnectionError):
            client.sendall(b"".join(pieces[:cut]))
            client.sendall(b"".join(pieces[cut:]))
            client.shutdown(socket.SHUT_WR)
        answer = read_all(client)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
    assert b"HTTP/1.1 500" not in answer
    assert serves(scene)


def test_after_all_of_that_nothing_is_left(scene: Scene) -> None:
    assert is_empty(scene)
    assert scene.gateway.process.poll() is None
