"""What the bytes of an exchange mean, whatever the reads they came in."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.load.connection import End, Exchange
from kilocard.load.stream import Outcome, read_outcome, sse_events
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


@given(st.lists(st.sampled_from(["{}", "a b", "x"]), max_size=5), st.sampled_from([b"\n", b"\r\n"]))
def test_events_end_with_a_blank_line_of_either_kind(texts: list[str], newline: bytes) -> None:
    raw = b"".join(b"data: " + text.encode() + newline * 2 for text in texts)
    assert [data.decode() for _, data in sse_events([(0.0, raw), (1.0, b"data: half")])] == texts


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
