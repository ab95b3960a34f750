"""What an engine sends, as it passes: one whole chunk at a time, and everything else through the parser."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.gateway.upstream import KNOWN_HEADS, LEAST_KNOWN, MOST_KNOWN, Line


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


class Scene:
    """Keeper, transport and receiver of one line."""

    relay = None
    events, content = 0, b""

    def __init__(self) -> None:
        self.kept: list[Line] = []
        self.pieces: list[bytes] = []
        self.ends: list[str] = []
        self.is_aborted = self.is_unheard = False

    def keep(self, line: Line) -> None:
        self.kept.append(line)

    def forget(self, line: Line) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_aborted

    def write(self, content: bytes) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True

    def on_head(self, status: int, kind: bytes, retry_after: bytes) -> None:
        pass

    def on_pieces(self, content: bytes, now: float) -> None:
        self.pieces.append(content)

    def on_end(self) -> None:
        self.ends.append("whole")

    def on_broken(self, reason: str, unheard: bool) -> None:
        self.ends.append(reason)
        self.is_unheard = unheard


def line_in(scene: Any) -> Line:
    line = Line(scene)
    line.connection_made(scene)
    line.send(scene, b"a request")
    return line


ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none"


def test_a_line_is_kept_after_one_whole_answer() -> None:
    scene = Scene()
    line = line_in(scene)
    line.data_received(ANSWER)
    assert (scene.pieces, scene.ends, scene.kept) == ([b"one"], ["whole"], [line])


@pytest.mark.parametrize("more", [ANSWER, ANSWER[:20], ANSWER[:-1], b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_what_comes_unasked_behind_an_answer_reaches_nobody(more: bytes) -> None:
    scene = Scene()
    line_in(scene).data_received(ANSWER + more)
    assert (scene.pieces, scene.ends) == ([b"one"], ["whole"])
    assert not scene.kept and scene.is_aborted


@pytest.mark.parametrize("status", [b"000", b"099"])
def test_a_status_that_is_none_is_a_fault(status: bytes) -> None:
    scene = Scene()
    line_in(scene).data_received(b"HTTP/1.1 %b OK\r\ncontent-length: 0\r\n\r\n" % status)
    assert len(scene.ends) == 1 and "not HTTP" in scene.ends[0] and not scene.kept


@pytest.mark.parametrize(("served", "is_spare"), [(0, False), (1, False), (0, True)])
@pytest.mark.parametrize("heard", [b"", b"HTTP/1.1 200 OK\r\n"])
def test_only_where_a_line_had_lain_a_request_may_have_met_its_close(
    served: int, is_spare: bool, heard: bytes
) -> None:
    scene = Scene()
    line = line_in(scene)
    line.served, line.is_spare = served, is_spare
    if heard:
        line.data_received(heard)
    line.connection_lost(None)
    assert len(scene.ends) == 1 and scene.is_unheard == ((served > 0 or is_spare) and not heard)
