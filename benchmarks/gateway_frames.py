"""What the fake engines read and say: the words of a prompt, the events of a stream, a whole answer."""

from __future__ import annotations

import json
from typing import Any

MODEL = "fake"
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"
MODELS = {
    "object": "list",
    "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": 32768}],
}


def words_of(body: dict[str, Any], is_chat: bool) -> list[str]:
    """Of a prompt, or of all messages with their roles: here, a word is a token."""
    if not is_chat:
        prompt = body.get("prompt") or ""
        return [str(token) for token in prompt] if isinstance(prompt, list) else str(prompt).split()
    return [
        word
        for message in body.get("messages") or ()
        for word in (str(message.get("role")), *str(message.get("content")).split())
    ]


def token_event(request_id: str, is_chat: bool, number: int) -> bytes:
    """A token of a stream, made without the JSON encoder."""
    kind = b"chat.completion.chunk" if is_chat else b"text_completion"
    said = b'"delta":{"content":" w%d"}' if is_chat else b'"text":" w%d"'
    return _framed(
        b'data: {"id":"cmpl-%b","object":"%b","created":1,"model":"fake","choices":[{"index":0,%b,'
        b'"logprobs":null,"finish_reason":null}]}\n\n' % (request_id.encode(), kind, said % number)
    )


def last_events(request_id: str, is_chat: bool, usage: dict[str, Any]) -> bytes:
    """The finish reason, the usage, [DONE] and the end of the message."""
    kind = "chat.completion.chunk" if is_chat else "text_completion"
    said: dict[str, Any] = {"delta": {}} if is_chat else {"text": ""}
    finish = {**_head(request_id, kind), "choices": [{"index": 0, **said, "finish_reason": "length"}]}
    told = {**_head(request_id, kind), "choices": [], "usage": usage}
    return _event(finish) + _event(told) + _framed(b"data: [DONE]\n\n") + LAST_CHUNK


def whole_answer(request_id: str, is_chat: bool, usage: dict[str, Any]) -> dict[str, Any]:
    """An answer that is no stream."""
    text = answer(usage["completion_tokens"])
    said = {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
    kind = "chat.completion" if is_chat else "text_completion"
    choice = {"index": 0, **said, "finish_reason": "length"}
    return {**_head(request_id, kind), "choices": [choice], "usage": usage}


def answer(tokens: int) -> str:
    """What the fake engines say to anything."""
    return "".join(f" w{number}" for number in range(tokens))


def _head(request_id: str, kind: str) -> dict[str, Any]:
    return {"id": f"cmpl-{request_id}", "object": kind, "created": 1, "model": MODEL}


def _event(content: dict[str, Any]) -> bytes:
    return _framed(b"data: %b\n\n" % json.dumps(content, separators=(",", ":")).encode())


def _framed(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)
