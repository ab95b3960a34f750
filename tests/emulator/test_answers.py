"""What is answered: text, usage, framing, as vLLM gives them; tried with the official client too."""

from typing import Any

import openai
import pytest
from emulator_client import MAX_MODEL_LEN, MODEL, ask

from kilocard.emulator import Emulated

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello world"}]


def completion(engines: Emulated, **options: Any) -> Any:
    return ask(engines.url, COMPLETIONS, {"model": MODEL, "prompt": "hello world", **options}).json


def test_a_completion_tells_its_text_and_usage(engines: Emulated) -> None:
    said = completion(engines, max_tokens=5)
    assert said["object"] == "text_completion"
    assert said["id"].startswith("cmpl-")
    choice, usage = said["choices"][0], said["usage"]
    assert (choice["finish_reason"], choice["stop_reason"], choice["index"]) == ("length", None, 0)
    assert len(choice["text"].split()) == usage["completion_tokens"] == 5
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (3, 8)


def test_without_max_tokens_a_completion_has_sixteen(engines: Emulated) -> None:
    assert completion(engines)["usage"]["completion_tokens"] == 16
    assert completion(engines, max_tokens=None)["usage"]["completion_tokens"] == 16


def test_the_text_follows_from_prompt_and_seed(engines: Emulated) -> None:
    def text(**options: Any) -> str:
        return str(completion(engines, max_tokens=8, **options)["choices"][0]["text"])

    assert text() == text() == ask(
        engines.urls[1], COMPLETIONS, {"prompt": "hello world", "max_tokens": 8}
    ).json["choices"][0]["text"]  # fmt: skip
    assert len({text(), text(seed=1), text(seed=2), text(prompt="hello there")}) == 4


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [("abcd" * 10, 40 // 4), (["abcd" * 10], 10), ([5, 6, 7], 3), ([[5, 6, 7]], 3), ("é" * 4, 2)],
)
def test_token_ids_count_and_text_is_estimated(engines: Emulated, prompt: Any, tokens: int) -> None:
    assert completion(engines, prompt=prompt)["usage"]["prompt_tokens"] == tokens


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_the_text(engines: Emulated, inclusive: bool, stream: bool) -> None:
    whole = completion(engines, max_tokens=40)["choices"][0]["text"]
    stop = whole[9:14]
    end = whole.index(stop) + len(stop) * inclusive
    options = {"max_tokens": 40, "stop": ["never", stop], "include_stop_str_in_output": inclusive}
    body = {"prompt": "hello world", **options, "stream": stream}
    answer = ask(engines.url, COMPLETIONS, body)
    choices = [event["choices"][0] for event in answer.events] if stream else answer.json["choices"]
    assert "".join(choice["text"] for choice in choices) == whole[:end]
    assert (choices[-1]["finish_reason"], choices[-1]["stop_reason"]) == ("stop", stop)
    if not stream:
        assert answer.json["usage"]["completion_tokens"] == 4


def test_an_answer_past_the_context_is_cut(engines: Emulated) -> None:
    prompt = list(range(1000, 1000 + MAX_MODEL_LEN - 5))
    said = completion(engines, prompt=prompt, max_tokens=100)
    assert said["usage"]["completion_tokens"] == 5
    assert said["choices"][0]["finish_reason"] == "length"


def test_a_completion_streams_a_token_an_event(engines: Emulated) -> None:
    body = {"prompt": "hello world", "max_tokens": 4, "stream": True}
    answer = ask(engines.url, COMPLETIONS, body)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-kilocard-engine"] == "emulated"
    choices = [event["choices"][0] for event in answer.events]
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "length"]
    assert (
        "".join(choice["text"] for choice in choices)
        == completion(engines, max_tokens=4)["choices"][0]["text"]
    )
    assert all("usage" not in event for event in answer.events)


def test_a_chat_streams_its_role_first_and_usage_last(engines: Emulated) -> None:
    body = {"messages": HELLO, "max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}}
    events = ask(engines.url, CHAT, body).events
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [event["object"] for event in events] == ["chat.completion.chunk"] * 5
    assert [len(event["choices"]) for event in events] == [1, 1, 1, 1, 0]
    assert "role" not in events[1]["choices"][0]["delta"]
    assert events[3]["choices"][0]["finish_reason"] == "length"
    assert events[4]["usage"]["completion_tokens"] == 3


def test_a_chat_of_one_token_has_all_in_its_first_event(engines: Emulated) -> None:
    events = ask(engines.url, CHAT, {"messages": HELLO, "max_tokens": 1, "stream": True}).events
    assert len(events) == 2
    assert events[1]["choices"][0]["finish_reason"] == "length"


def test_a_chat_without_a_limit_ends_by_itself(engines: Emulated) -> None:
    said = ask(engines.url, CHAT, {"messages": HELLO}).json
    assert said["choices"][0]["finish_reason"] == "stop"
    assert said["choices"][0]["message"]["role"] == "assistant"
    assert said["usage"]["completion_tokens"] == 256


def test_a_conversation_meets_its_own_past(engines: Emulated) -> None:
    first = [{"role": "user", "content": "tell me of the sea " * 20}]
    one = ask(engines.url, CHAT, {"messages": first, "max_tokens": 64}).json
    answered = {"role": "assistant", "content": one["choices"][0]["message"]["content"]}
    more = [*first, answered, {"role": "user", "content": "go on"}]
    usage = ask(engines.url, CHAT, {"messages": more, "max_tokens": 4}).json["usage"]
    said = one["usage"]["total_tokens"]
    assert said - 32 <= usage["prompt_tokens_details"]["cached_tokens"] <= said
    elsewhere = ask(engines.urls[1], CHAT, {"messages": more, "max_tokens": 4}).json["usage"]
    assert elsewhere["prompt_tokens_details"]["cached_tokens"] == 0


def test_the_official_client_understands_all_of_it(engines: Emulated) -> None:
    client = openai.OpenAI(base_url=f"{engines.url}/v1", api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == [MODEL]
    messages: Any = HELLO
    chat = client.chat.completions.create(model=MODEL, messages=messages, max_completion_tokens=6)
    assert chat.usage and chat.usage.completion_tokens == 6
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=6, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == chat.choices[0].message.content
    assert chunks[-1].usage and chunks[-1].usage.total_tokens == chat.usage.total_tokens
    texts = [part.choices[0].text for part in client.completions.create(model=MODEL, prompt="a", stream=True)]
    assert "".join(texts) == client.completions.create(model=MODEL, prompt="a").choices[0].text
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.completions.create(model="other", prompt="a")
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        client.completions.create(model=MODEL, prompt=[7] * (MAX_MODEL_LEN + 1))
