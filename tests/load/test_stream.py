"""What the bytes of an exchange mean, whatever the reads they came in."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.load.connection import End, Exchange
from kilocard.load.stream import Outcome, read_outcome
from kilocard.record import Status
from kilocard.workload import Request

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def event(**body: Any) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def delta(text: str = "", reason: str | None = None, **fields: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": text, **fields}, "finish_reason": reason}])


def chunked(*events: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(content), content) for content in events)


def outcome_of(*reads: bytes, end: End = End.COMPLETE, detail: str = "") -> Outcome:
    """The reads arrive at 1, 2, 3 ... seconds."""
    timed = [(float(number), data) for number, data in enumerate(reads, start=1)]
    return read_outcome(Exchange(Request("a", 4, 4), reads=timed, end=end, detail=detail))


def stream(*events: bytes, end: End = End.COMPLETE) -> Outcome:
    """Each event in a read of its own, after the head's."""
    closing = (b"0\r\n\r\n",) if end is End.COMPLETE else ()
    return outcome_of(HEAD, *(chunked(content) for content in events), *closing, end=end)


def cuts(data: bytes) -> st.SearchStrategy[list[bytes]]:
    places = st.lists(st.integers(0, len(data)), max_size=12).map(
        lambda found: [0, *sorted(found), len(data)]
    )
    return places.map(lambda at: [data[a:b] for a, b in itertools.pairwise(at)])


ANSWER = (
    HEAD
    + chunked(
        delta(role="assistant"),
        delta("Héllo"),
        b": ping\n\n" + delta(" you"),
        delta(" there"),
        delta("", "length"),
        event(choices=[], usage={"prompt_tokens": 4, "completion_tokens": 9}),
        DONE,
    )
    + b"0\r\n\r\n"
)


@given(cuts(ANSWER))
def test_an_answer_means_the_same_however_it_is_cut_into_reads(reads: list[bytes]) -> None:
    outcome = outcome_of(*reads)
    assert outcome.status is Status.OK
    assert outcome.chunk_texts == ["Héllo", " you", " there"]
    assert (outcome.prompt_tokens, outcome.output_tokens) == (4, 9)


@given(cuts(ANSWER))
def test_an_event_has_the_time_of_the_read_that_completed_it(reads: list[bytes]) -> None:
    ends = [
        ANSWER.index(text) + ANSWER[ANSWER.index(text) :].index(b"\n\n") + 2
        for text in (b"llo", b" you", b" there")
    ]
    arrived = [sum(map(len, reads[: number + 1])) for number in range(len(reads))]
    expected = [float(1 + next(n for n, total in enumerate(arrived) if total >= end)) for end in ends]
    assert outcome_of(*reads).chunk_times == expected


def test_a_role_frame_is_no_token() -> None:
    assert stream(delta(role="assistant"), delta("a"), delta("", "stop"), DONE).chunk_times == [3.0]


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
    ],
)
def test_reasoning_and_tool_calls_are_tokens(fields: dict[str, Any]) -> None:
    assert stream(delta("", **fields), delta("", "stop"), DONE).chunk_times == [2.0]


def test_tokens_are_counted_by_usage_not_by_chunks() -> None:
    told = event(
        choices=[],
        usage={"prompt_tokens": 1, "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": 16}},
    )
    outcome = stream(delta("a b c"), delta("d e f", "length"), told, DONE)
    assert (len(outcome.chunk_times), outcome.output_tokens, outcome.cached_tokens) == (2, 40, 16)
    assert stream(delta("a", "stop"), DONE).output_tokens is None


def test_an_error_event_is_an_error_even_before_done() -> None:
    outcome = stream(delta("a"), event(error={"message": "shutting  down\n", "code": 500}), DONE)
    assert (outcome.status, outcome.error) == (Status.ERROR, "500: shutting down")


def test_a_full_queue_told_inside_a_200_stream_is_a_refusal() -> None:
    full = event(error={"message": "queue is full", "code": 503})
    assert stream(full, DONE).status is Status.REFUSED
    assert stream(delta("a"), full, DONE).status is Status.ERROR


@pytest.mark.parametrize(
    ("complaint", "says"),
    [
        (event(object="error", message="out of memory", code=500), "500: out of memory"),
        (event(error="out of memory"), "out of memory"),
        (b'event: error\ndata: {"message": "out of memory"}\n\n', "out of memory"),
        (b"event: error\ndata: out of memory\n\n", "out of memory"),
        (b"event: error\n\n", "without a word"),
    ],
)
def test_an_error_event_of_any_shape_is_an_error(complaint: bytes, says: str) -> None:
    outcome = stream(delta("a"), complaint, delta("", "stop"), DONE)
    assert outcome.status is Status.ERROR
    assert says in str(outcome.error)


@pytest.mark.parametrize("before", [(), (delta(role="assistant"),), (b": ping\n\n",)])
def test_a_stream_that_says_done_before_any_token_is_lost(before: tuple[bytes, ...]) -> None:
    outcome = stream(*before, DONE)
    assert outcome.status is Status.LOST
    assert "[DONE]" in str(outcome.error)
    assert stream(delta("", "stop"), DONE).status is Status.OK, "an answer of no text has a finish reason"


DEEP = b"[" * 200_000


@pytest.mark.parametrize("count", ["many", 1.5, 2**63, [1], -1, True, {"a": 1}])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens", "prompt_tokens_details"])
def test_a_usage_that_is_no_count_fails_its_request_and_no_more(name: str, count: Any) -> None:
    told = {"cached_tokens": count} if name == "prompt_tokens_details" else count
    outcome = stream(delta("a", "stop"), event(choices=[], usage={name: told}), DONE)
    assert outcome.status is Status.ERROR
    assert "which is no count from 0 to 2147483648" in str(outcome.error)
    assert outcome.output_tokens is None
    assert len(outcome.chunk_times) == 1, "what came is kept"


@pytest.mark.parametrize("usage", [7, [1], "many"])
def test_a_usage_of_another_shape_fails_its_request(usage: Any) -> None:
    assert "no object" in str(stream(delta("a", "stop"), event(choices=[], usage=usage)).error)


@pytest.mark.parametrize("odd", [b"data: " + DEEP + b"\n\n", event(error={"message": "\ud800"})])
def test_deep_nests_and_lone_surrogates_are_an_error_that_a_file_takes(odd: bytes) -> None:
    outcome = stream(delta("a"), odd, delta("", "stop"), DONE)
    assert outcome.status is Status.ERROR
    assert str(outcome.error).encode()


@pytest.mark.parametrize("body", [DEEP, b'{"error": "\\ud800"}'])
def test_a_plain_answer_may_be_as_odd(body: bytes) -> None:
    head = b"HTTP/1.1 500 X\r\ncontent-length: %d\r\n\r\n" % len(body)
    outcome = outcome_of(head + body)
    assert (outcome.status, outcome.http_status) == (Status.ERROR, 500)
    assert str(outcome.error).encode()


def test_an_answer_that_changes_the_protocol_is_an_error() -> None:
    head = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n"
    assert outcome_of(head, b"\x81\x00", end=End.GARBLED).status is Status.ERROR


@pytest.mark.parametrize("end", [End.COMPLETE, End.CUT])
def test_a_stream_without_its_last_word_is_lost(end: End) -> None:
    outcome = stream(delta("a"), delta("b"), end=end)
    assert outcome.status is Status.LOST
    assert outcome.chunk_times == [2.0, 3.0]


def test_a_cut_in_the_middle_of_an_event_is_lost_and_a_cut_after_done_is_not() -> None:
    assert outcome_of(HEAD, chunked(delta("a"))[:-9], end=End.CUT).status is Status.LOST
    assert stream(delta("a"), DONE, end=End.CUT).status is Status.OK


@pytest.mark.parametrize(
    ("code", "status"),
    [(400, Status.ERROR), (429, Status.REFUSED), (500, Status.ERROR), (503, Status.REFUSED)],
)
def test_http_errors_keep_their_code_and_message(code: int, status: Status) -> None:
    body = b'{"error":{"message":"too long","code":1}}'
    head = f"HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    outcome = outcome_of(head.encode() + body)
    assert (outcome.status, outcome.http_status, outcome.error) == (status, code, f"HTTP {code}: too long")


def test_a_refusal_keeps_when_to_come_again() -> None:
    head = b"HTTP/1.1 503 X\r\nRetry-After: 7\r\ncontent-length: 4\r\n\r\nfull"
    assert outcome_of(head).error == "HTTP 503: full (retry-after: 7)"


@pytest.mark.parametrize("body", [b'{"choices":[]}', b"<html>hello</html>", b"[1]", b""])
def test_a_200_that_is_no_stream_is_an_error(body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
    assert outcome_of(head + body).status is Status.ERROR


@pytest.mark.parametrize("odd", [b"data: {oops\n\n", b"data: 7\n\n", event(choices=[3]), event(choices=7)])
def test_an_event_that_is_no_chunk_is_an_error(odd: bytes) -> None:
    assert stream(delta("a"), odd, delta("", "stop"), DONE).status is Status.ERROR


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (End.TIMEOUT, Status.TIMEOUT),
        (End.UNREACHABLE, Status.REFUSED),
        (End.CANCELLED, Status.CANCELLED),
        (End.GARBLED, Status.ERROR),
        (End.CUT, Status.LOST),
    ],
)
def test_how_the_wire_ended_decides_when_the_engine_said_nothing(end: End, status: Status) -> None:
    outcome = outcome_of(end=end, detail="because")
    assert (outcome.status, outcome.error, outcome.http_status) == (status, "because", None)


@given(st.binary(max_size=200), cuts(ANSWER), st.sampled_from(End))
def test_no_bytes_break_the_reader(noise: bytes, reads: list[bytes], end: End) -> None:
    assert outcome_of(*reads[:2], noise, *reads[2:], end=end).status in Status


def test_who_answered_is_told_by_a_gateways_headers() -> None:
    tags = b"x-model-version: v2\r\nx-node: rack-1\r\nx-replica: 10.0.0.7:8000\r\n\r\n"
    outcome = outcome_of(HEAD[:-2] + tags, chunked(delta("a", "length"), DONE) + b"0\r\n\r\n")
    assert outcome.tags == {"model_version": "v2", "node": "rack-1", "replica": "10.0.0.7:8000"}
    assert outcome_of(HEAD, chunked(delta("a", "length"), DONE) + b"0\r\n\r\n").tags == {}
