"""What an engine sends, as it passes: one whole chunk at a time, and everything else through the parser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kilocard.gateway.upstream import KNOWN_HEADS, LEAST_KNOWN, MOST_KNOWN


@given(content=st.integers(0, 2 * MOST_KNOWN), other=st.integers(0, 2 * MOST_KNOWN))
def test_the_head_of_a_chunk_is_known_by_the_length_of_all_of_it(content: int, other: int) -> None:
    head = b"%x\r\n" % content
    whole = len(head) + content + 2
    if whole >= MOST_KNOWN:
        return
    is_known = content >= LEAST_KNOWN
    assert head.startswith(KNOWN_HEADS[whole]) == is_known
    if other != content:
        assert not (b"%x\r\n" % other).startswith(KNOWN_HEADS[whole])
