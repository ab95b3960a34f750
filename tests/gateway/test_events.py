"""Events as they pass: whole ones go on, an error is found where it is one, and so is the last word."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.gateway import events

TEXTS = st.text(max_size=30) | st.sampled_from(
    [
        '{"error": 1}',
        'data: {"error": {}}',
        "\n\n",
        "data: [DONE]",
        "data:[DONE]",
        '"finish_reason": "stop"',
        '"usage"',
    ]
)


def token(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "text": text, "finish_reason": reason}
    return b"data: " + msgspec.json.encode({"choices": [choice]}) + b"\n\n"


@given(st.lists(TEXTS, max_size=8), st.data())
def test_however_it_is_cut_all_comes_through_and_only_whole_events(
    texts: list[str], data: st.DataObject
) -> None:
    whole = b"".join(map(token, texts))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    passed, rest = b"", b""
    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        piece, rest = events.split(rest + whole[begin:end])
        assert not piece or piece.endswith(b"\n\n")
        passed += piece
    assert passed == whole and rest == b""
    assert events.count(passed) == len(texts)


@given(TEXTS)
def test_what_an_answer_quotes_is_neither_an_error_nor_an_end(text: str) -> None:
    assert events.error_in(token(text)) is None
    assert not events.has_last_word(token(text))
    assert events.usage_in(token(text)) is None


@given(TEXTS, st.text(max_size=20), st.sampled_from([b"", b"event: error\n"]))
def test_an_error_is_found_behind_tokens_with_what_it_says(text: str, message: str, name: bytes) -> None:
    before = token(text)
    error = name + b"data: " + msgspec.json.encode({"error": {"message": message, "code": 500}}) + b"\n\n"
    found = events.error_in(before + error + events.DONE)
    assert found == (len(before), {"message": message, "code": 500})
    assert events.error_in(error) == (0, {"message": message, "code": 500})


@pytest.mark.parametrize(
    "told", [b'{"error": "text"}', b'{"error": [1]}', b'{"error": {', b'{"error": \xff}']
)
def test_an_error_in_no_form_is_one_all_the_same(told: bytes) -> None:
    found = events.error_in(b"data: " + told + b"\n\n")
    assert found is not None
    assert "message" in found[1]


def test_the_last_word_is_a_reason_or_done() -> None:
    assert events.has_last_word(token("", "stop"))
    assert events.has_last_word(events.DONE)
    assert not events.has_last_word(token("a"))


@given(TEXTS, st.integers(0, 10**6), st.integers(0, 10**6))
def test_usage_is_read_of_the_last_events_and_of_a_whole_answer(text: str, prompt: int, tokens: int) -> None:
    told = {"usage": {"prompt_tokens": prompt, "completion_tokens": tokens}, "choices": []}
    content = msgspec.json.encode(told)
    for seen in (token(text, "stop") + b"data: " + content + b"\n\n" + events.DONE, content):
        assert events.usage_in(seen) == events.Usage(prompt, tokens)


def test_a_role_opens_and_says_nothing() -> None:
    assert events.only_opens(b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n')
    assert not events.only_opens(b'data: {"choices":[{"delta":{"role":"assistant","content":"a"}}]}\n\n')
    assert not events.only_opens(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')


def test_an_event_without_an_end_is_not_held_for_ever() -> None:
    endless = b"data: " + b"x" * events.MOST_HELD
    assert events.split(endless) == (endless, b"")


@pytest.mark.parametrize("tokens", [-1, -(10**12), 10**9 + 1, 10**400])
def test_tokens_that_cannot_be_are_not_believed(tokens: int) -> None:
    assert events.usage_in(json.dumps({"usage": {"completion_tokens": tokens}}).encode()) is None
