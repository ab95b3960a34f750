"""Sampling parameters, formats and tools that vLLM 0.32 refuses, in the words that its own protocol has."""

import json
from typing import Any

import pytest

from kilocard.emulator.asked import Asked, Door
from kilocard.emulator.errors import ApiError

DOOR = Door("a-model", 2000)
ENGINE, HTTP = "BadRequestError", "Bad Request"
FUNCTION: dict[str, Any] = {"type": "function", "function": {"name": "f"}}
OTHER: dict[str, Any] = {"type": "function", "function": {"name": "g"}}
SCHEMA: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}


def completion(**options: Any) -> Asked:
    return DOOR.completion(json.dumps({"prompt": "a", **options}).encode())


def chat(**options: Any) -> Asked:
    return DOOR.chat(json.dumps({"messages": [{"role": "user", "content": "a"}], **options}).encode())


BOTH = (completion, chat)
SAID: list[tuple[dict[str, Any], str, str | None, str]] = [
    ({"top_k": -5}, ENGINE, None, "top_k must be 0 (disable), or at least 1, got -5."),
    ({"top_k": 1.5}, HTTP, "body.top_k", "fractional part"),
    ({"min_p": 3}, ENGINE, None, "min_p must be in [0, 1], got 3.0."),
    ({"min_p": -1}, ENGINE, None, "min_p must be in [0, 1], got -1.0."),
    ({"presence_penalty": 9}, ENGINE, None, "presence_penalty must be in [-2, 2], got 9.0."),
    ({"frequency_penalty": -3}, ENGINE, None, "frequency_penalty must be in [-2, 2], got -3.0."),
    ({"frequency_penalty": float("nan")}, ENGINE, None, "frequency_penalty must be in [-2, 2], got nan."),
    ({"repetition_penalty": 0}, ENGINE, None, "repetition_penalty must be greater than zero, got 0.0."),
    ({"repetition_penalty": float("inf")}, ENGINE, None, "repetition_penalty must be a finite number"),
    ({"repetition_penalty": "x"}, HTTP, "body.repetition_penalty", "Input should be a valid number"),
    ({"temperature": 2.5}, ENGINE, "temperature", "must be in [0, 2], got 2.5. (parameter=temperature, v"),
    ({"temperature": -1}, ENGINE, "temperature", "temperature must be non-negative, got -1.0."),
    ({"temperature": float("inf")}, ENGINE, "temperature", "temperature must be a finite number, got inf."),
    ({"temperature": float("nan")}, ENGINE, "temperature", "temperature must be a finite number, got nan."),
    ({"top_p": 0}, ENGINE, "top_p", "top_p must be in (0, 1], got 0.0. (parameter=top_p, value=0.0)"),
    ({"min_tokens": 50, "max_tokens": 3}, ENGINE, None, "or equal to max_tokens=3, got 50."),
    ({"min_tokens": 2000}, ENGINE, None, "min_tokens must be less than or equal to max_tokens="),
    ({"min_tokens": -1}, ENGINE, None, "min_tokens must be greater than or equal to 0, got -1."),
    ({"n": 0}, ENGINE, None, "n must be at least 1, got 0."),
    ({"n": 99999}, ENGINE, None, "n must be at most 16384, got 99999."),
    ({"stop": [""]}, ENGINE, None, "stop cannot contain an empty string."),
    ({"stop": ["a"] * 5}, HTTP, "body.stop", "at most 4 items"),
    ({"stop_token_ids": ["x"]}, HTTP, "body.stop_token_ids.0", "Input should be a valid integer"),
    ({"bad_words": [""]}, ENGINE, None, "bad_words cannot contain an empty string. Got bad_words=['']"),
    ({"logit_bias": {"x": 1}}, ENGINE, "logit_bias", "cannot be converted to integer token IDs: ['x']"),
    ({"allowed_token_ids": []}, ENGINE, "allowed_token_ids", "allowed_token_ids is not None and empty!"),
    ({"prompt_logprobs": -3}, ENGINE, "prompt_logprobs", "`prompt_logprobs` must be a positive value or -1."),
    ({"prompt_logprobs": "x"}, ENGINE, "prompt_logprobs", "`prompt_logprobs` must be an integer."),
    ({"prompt_logprobs": 30}, ENGINE, "prompt_logprobs", "Requested prompt logprobs of 30, which is greater"),
    ({"prompt_logprobs": 3, "stream": True}, ENGINE, "prompt_logprobs", "not available when `stream=True`."),
    ({"response_format": {"type": "nope"}}, HTTP, "body.response_format.type", "Input should be 'text'"),
    ({"response_format": 5}, HTTP, "body.response_format", "Input should be"),
    ({"response_format": {"type": "json_schema"}}, ENGINE, "response_format", "field must be provided."),
    ({"stream_options": {"odd": 1}}, ENGINE, "stream_options", "only be defined when `stream=True`."),
]
SAID_OF_A_COMPLETION: list[tuple[dict[str, Any], str, str | None, str]] = [
    (
        {"logprobs": -2},
        ENGINE,
        "logprobs",
        "`logprobs` must be a positive value or -1.",
    ),
    ({"logprobs": "x"}, ENGINE, "logprobs", "`logprobs` must be an integer. (parameter=logprobs, value=x)"),
    ({"logprobs": 21}, ENGINE, "logprobs", "Requested sample logprobs of 21, which is greater than max all"),
    ({"logprobs": -1}, ENGINE, "logprobs", "which is greater than max allowed: 20"),
    ({"logprobs": 1.5}, HTTP, "body.logprobs", "fractional part"),
    ({"n": None}, HTTP, "body.n", "Input should be a valid integer"),
]
SAID_OF_A_CHAT: list[tuple[dict[str, Any], str, str | None, str]] = [
    ({"logprobs": "x"}, HTTP, "body.logprobs", "Input should be a valid boolean"),
    ({"logprobs": -1}, HTTP, "body.logprobs", "Input should be a valid boolean"),
    (
        {"top_logprobs": 5},
        ENGINE,
        "top_logprobs",
        "when using `top_logprobs`, `logprobs` must be set",
    ),
    ({"top_logprobs": "x"}, ENGINE, "top_logprobs", "`top_logprobs` must be an integer."),
    ({"logprobs": True, "top_logprobs": 21}, ENGINE, "logprobs", "Requested sample logprobs of 21"),
    ({"tools": 5}, HTTP, "body.tools", "Input should be a valid"),
    ({"tools": []}, ENGINE, "tools", "`tools` must not be an empty array."),
    ({"tools": [{"type": "x"}]}, HTTP, "body.tools.0.type", "Input should be 'function'"),
    ({"tool_choice": "auto"}, ENGINE, "tool_choice", "When using `tool_choice`, `tools` must be set."),
    ({"tools": [FUNCTION], "tool_choice": "what"}, ENGINE, "tool_choice", "for `tool_choice`: what!"),
    ({"tools": [FUNCTION], "tool_choice": OTHER}, ENGINE, "tool_choice", "does not match any of the"),
    ({"tools": [FUNCTION], "tool_choice": {}}, HTTP, "body.tool_choice", "validation error"),
]


@pytest.mark.parametrize(
    ("ask", "options", "kind", "param", "says"),
    [
        *((ask, *said) for said in SAID for ask in BOTH),
        *((completion, *said) for said in SAID_OF_A_COMPLETION),
        *((chat, *said) for said in SAID_OF_A_CHAT),
    ],
)
def test_what_vllm_refuses_is_refused_in_its_words(
    ask: Any, options: dict[str, Any], kind: str, param: str | None, says: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        ask(**options)
    assert (refusal.value.status, refusal.value.kind, refusal.value.param) == (400, kind, param)
    assert says in str(refusal.value)


@pytest.mark.parametrize("ask", BOTH)
@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 2, "top_p": 1, "top_k": -1, "min_p": 1, "presence_penalty": -2},
        {"temperature": None, "top_p": None, "top_k": None, "min_p": None, "repetition_penalty": None},
        {"min_tokens": 3, "max_tokens": 3, "bad_words": ["a"], "logit_bias": {"5": 1}, "stop": ["z"] * 4},
        {"logprobs": True, "prompt_logprobs": 20, "stop_token_ids": [1], "stream_options": {}},
        {"response_format": {"type": "text"}},
        {"response_format": SCHEMA},
        {"tools": [FUNCTION], "tool_choice": FUNCTION},
        {"tools": [FUNCTION], "tool_choice": "required"},
    ],
)
def test_what_vllm_takes_is_taken(ask: Any, options: dict[str, Any]) -> None:
    assert ask(**options).output_tokens > 0


def test_a_chat_ends_by_itself_only_where_it_may() -> None:
    assert (chat().output_tokens, chat().finish_reason) == (256, "stop")
    assert (chat(min_tokens=300).output_tokens, chat(min_tokens=300).finish_reason) == (300, "stop")
    endless = chat(ignore_eos=True)
    assert (endless.output_tokens, endless.finish_reason) == (endless.most_tokens, "length")


def test_a_stop_string_ends_no_answer_before_its_least_tokens() -> None:
    whole = completion(max_tokens=400)
    stop = whole.text[8:11].decode()
    assert completion(max_tokens=400, stop=stop).output_tokens == 3
    later = completion(max_tokens=400, stop=stop, min_tokens=3)
    assert 3 < later.output_tokens < 400
    assert later.stop_reason == stop
