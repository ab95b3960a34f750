"""Whatever an engine answers becomes a row that a run's file takes."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.load.connection import End, Exchange
from kilocard.load.generate import Tally
from kilocard.record import Kind, Run, Stamp
from kilocard.workload import Request

STAMP = Stamp(Kind.MEASURED, "m", "e", "1", "c", {"name": "b"}, "2026-01-02")

anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just("\ud800"), st.just(2**63)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner)),
    max_leaves=6,
)


def object_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(anything, st.fixed_dictionaries({}, optional=fields))


delta = object_of(content=anything, reasoning=anything, tool_calls=anything)
choice = object_of(text=anything, delta=delta, finish_reason=anything)
details = object_of(cached_tokens=anything)
usage = object_of(prompt_tokens=anything, completion_tokens=anything, prompt_tokens_details=details)
error = object_of(message=anything, code=anything)
event = object_of(
    choices=st.lists(choice, max_size=2), usage=usage, error=error, object=anything, message=anything
)
head = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n",
        b"HTTP/1.1 503 Busy\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ]
)


@given(head, st.lists(event, min_size=1, max_size=3), st.sampled_from(End))
@settings(max_examples=150)
def test_any_answer_is_a_row(
    tmp_path_factory: pytest.TempPathFactory, head: bytes, events: list[Any], end: End
) -> None:
    is_stream = b"event-stream" in head
    said = [(b"data: %b\n\n" if is_stream else b"%b") % json.dumps(event).encode() for event in events]
    reads = [(float(number), data) for number, data in enumerate([head, *said])]
    tally = Tally(0.0, "m")
    tally.take(Exchange(Request("a", 4, 4), reads=reads, end=end, sent=0.0))
    tally.settle()
    path = Run.from_rows(tally.rows, STAMP).write(tmp_path_factory.getbasetemp() / "any.parquet")
    kept = Run.read(path).requests
    assert kept["request_id"].tolist() == ["a"]
    assert kept["status"].notna().all()
