"""What a client gets when an engine fails: another's answer, an HTTP error or an error event, never a cut."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from failing_engine import MODEL, FailingEngine, ask, before, failing_engines, in_flight
from gateway_at_work import eventually

from kilocard.gateway.process import AtWork

BEFORE_A_BYTE = {
    "500": 502,
    "503": 503,
    "429": 429,
    "hang": 504,
    "close": 502,
    "reset": 502,
    "garbage": 502,
    "refusal event": 503,
    "empty": 502,
}
"""Faults before the first byte, and the status where no engine does better."""
UNHEARD = {"close", "reset"}
"""On a connection that had lain idle they may mean that it was closed before: the same engine is asked once
more."""
MIDWAY = (
    "hang midway",
    "error event",
    "error event beside a token",
    "no last word",
    "truncated",
    "bad chunk",
    "reset midway",
)


@pytest.fixture(autouse=True)
def nothing_is_left(gateway: AtWork, engines: list[FailingEngine]) -> Iterator[None]:
    for engine in engines:
        engine.heard.clear()
    yield
    assert eventually(lambda: in_flight(gateway) == 0)


def tries(engines: list[FailingEngine]) -> int:
    return sum(len(engine.heard) for engine in engines)


def has_tried_each(engines: list[FailingEngine], fault: str) -> bool:
    most = 2 if fault in UNHEARD else 1
    return all(1 <= len(engine.heard) <= most for engine in engines)


@pytest.mark.parametrize("fault", BEFORE_A_BYTE)
def test_before_the_first_byte_another_engine_answers(
    gateway: AtWork, engines: list[FailingEngine], fault: str
) -> None:
    answer = ask(gateway, fault=fault, fails=1)
    assert answer.status == 200
    assert answer.last_event == b"data: [DONE]"
    assert b'"error"' not in answer.content
    assert answer.content.count(b" t") == 4
    assert has_tried_each(engines, fault)


@pytest.mark.parametrize("fault", BEFORE_A_BYTE)
def test_where_none_does_better_the_client_is_told(
    gateway: AtWork, engines: list[FailingEngine], fault: str
) -> None:
    answer = ask(gateway, fault=fault)
    assert answer.status == BEFORE_A_BYTE[fault]
    assert answer.error["message"] and answer.headers["x-request-id"]
    assert ("retry-after" in answer.headers) == (answer.status in {429, 503})
    assert has_tried_each(engines, fault)


@pytest.mark.parametrize("fault", ["500", "503", "429", "close", "reset", "garbage", "short"])
def test_an_answer_that_is_no_stream_is_tried_again_too(
    gateway: AtWork, engines: list[FailingEngine], fault: str
) -> None:
    assert ask(gateway, fault=fault, fails=1, stream=False).status == 200
    assert tries(engines) == 2


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize("fault", MIDWAY)
def test_a_stream_that_has_begun_ends_with_an_error_event(
    gateway: AtWork, engines: list[FailingEngine], fault: str, path: str
) -> None:
    answer = ask(gateway, path, fault=fault, messages=[{"role": "user", "content": "a"}])
    assert answer.status == 200
    assert b" t0" in answer.content
    assert answer.last_event.startswith(b'data: {"error":')
    assert b"[DONE]" not in answer.content
    assert answer.content.count(b'"error"') == 1
    assert (b" x" in answer.content) == (fault == "error event beside a token")
    assert tries(engines) == 1


@pytest.mark.parametrize("fault", ["cut after the last word", "hang after the last word"])
def test_what_happens_after_the_last_word_costs_nobody_an_answer(gateway: AtWork, fault: str) -> None:
    failures = [row["failures"] for row in gateway.replicas()]
    answer = ask(gateway, fault=fault)
    assert answer.last_event == b"data: [DONE]"
    assert b'"error"' not in answer.content
    assert [row["failures"] for row in gateway.replicas()] == failures


def test_a_client_that_hangs_up_at_the_last_word_has_been_served(gateway: AtWork) -> None:
    def served() -> int:
        return sum(row["served"] for row in gateway.replicas())

    before_it, connection = served(), HTTPConnection(gateway.url.removeprefix("http://"), timeout=30)
    asked = {"model": MODEL, "prompt": "a", "stream": True, "fault": "hang after the last word"}
    connection.request("POST", "/v1/completions", json.dumps(asked))
    answer = connection.getresponse()
    while answer.readline() != b"data: [DONE]\n":
        pass
    answer.close()
    connection.close()
    assert eventually(lambda: served() == before_it + 1)


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_a_clients_mistake_is_passed_on_and_held_against_nobody(
    gateway: AtWork, engines: list[FailingEngine], status: int
) -> None:
    failures = [row["failures"] for row in gateway.replicas()]
    for is_stream in (True, False):
        answer = ask(gateway, fault=str(status), stream=is_stream)
        assert (answer.status, answer.error) == (
            status,
            {"message": f"told to say {status}", "code": status},
        )
    assert [row["failures"] for row in gateway.replicas()] == failures
    assert tries(engines) == 2


def test_a_connection_that_the_engine_had_closed_costs_no_try(
    gateway: AtWork, engines: list[FailingEngine]
) -> None:
    assert ask(gateway).status == 200
    for engine in engines:
        engine.die()
        engine.come()
    assert ask(gateway).status == 200


def test_second_tries_end_with_their_budget() -> None:
    with (
        failing_engines(2) as engines,
        before(engines, health={"failures": 100}, retries={"most": 2, "budget": 0.0}) as gateway,
    ):
        assert eventually(lambda: all(row["share"] > 0 for row in gateway.replicas()))
        assert [ask(gateway, fault="500").status for _ in range(20)] == [502] * 20
        assert 20 < tries(engines) <= 20 + 3 + 3
