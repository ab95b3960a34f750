"""Events are the same however their lines end and wherever the reads cut them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.load.sse import BYTE_ORDER_MARK, sse_events

NEWLINES = st.sampled_from([b"\n", b"\r\n", b"\r"])
TEXTS = st.lists(st.sampled_from(["{}", "a b", "x"]), max_size=5)


def cuts(data: bytes) -> st.SearchStrategy[list[bytes]]:
    return st.lists(st.integers(0, len(data)), max_size=9).map(
        lambda found: [data[a:b] for a, b in itertools.pairwise([0, *sorted(found), len(data)])]
    )


@given(TEXTS, NEWLINES, st.sampled_from([b"", BYTE_ORDER_MARK]), st.data())
def test_lines_end_in_any_of_three_ways_and_a_mark_may_lead(
    texts: list[str], newline: bytes, mark: bytes, data: st.DataObject
) -> None:
    raw = mark + b"".join(b"data: " + text.encode() + newline * 2 for text in texts)
    pieces = [*data.draw(cuts(raw)), b"data: half"]
    events = list(sse_events((float(number), piece) for number, piece in enumerate(pieces)))
    assert [event.data.decode() for event in events] == texts


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_an_event_has_the_lines_of_its_data_and_its_name(newline: bytes) -> None:
    lines = [b": ping", b"event: error", b"id: 4", b"data: a", b"data", b"data:b", b"", b"data: c", b"", b""]
    events = list(sse_events([(1.0, newline.join(lines))]))
    assert [(event.name, event.data) for event in events] == [(b"error", b"a\n\nb"), (b"", b"c")]


def test_a_long_line_in_many_pieces_costs_no_more_than_its_length() -> None:
    pieces = [(0.0, b"data: "), *((0.0, b"x" * 2_000) for _ in range(20_000)), (9.0, b"\n\n")]
    (event,) = sse_events(pieces)
    assert (event.time, len(event.data)) == (9.0, 40_000_000)
