"""The bytes of an answer as vLLM 0.32 frames them: chunks of a stream, or one JSON object."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from kilocard import __version__
from kilocard.emulator.asked import Asked

ENGINE_HEADERS = "server: kilocard-emulator\r\nx-kilocard-engine: emulated\r\n"
"""Every answer says what it comes from."""

STREAM_HEAD = (
    f"HTTP/1.1 200 OK\r\n{ENGINE_HEADERS}content-type: text/event-stream; charset=utf-8\r\n"
    "transfer-encoding: chunked\r\n"
).encode()
LAST_CHUNK = b"0\r\n\r\n"
FINGERPRINT = {"system_fingerprint": f"kilocard-emulator-{__version__}"}
UNTOLD = ("kv_transfer_params", "ec_transfer_params", "metrics")
UNTOLD_OF_A_CHAT = ("prompt_logprobs", "prompt_token_ids", "prompt_text", *UNTOLD)
UNTOLD_OF_A_CHOICE = ("prompt_logprobs", "prompt_token_ids", "routed_experts")
"""What vLLM always names in a whole answer, though it is null."""

_COMPACT = (",", ":")


def head_of(status: int, length: int, content_type: str, extra: str = "") -> bytes:
    """The head of a whole answer."""
    kind = f"content-type: {content_type}\r\n" if length else ""
    return (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{ENGINE_HEADERS}{kind}content-length: {length}\r\n"
        f"{extra}\r\n"
    ).encode()


def chunked(content: bytes) -> bytes:
    """One chunk of the transfer."""
    return b"%x\r\n%b\r\n" % (len(content), content)


def event(body: Any) -> bytes:
    """One server-sent event, as one chunk."""
    return chunked(b"data: " + json.dumps(body, separators=_COMPACT).encode() + b"\n\n")


DONE = chunked(b"data: [DONE]\n\n") + LAST_CHUNK


@dataclass(frozen=True, slots=True)
class Frames:
    """What one request's answer is made of."""

    asked: Asked
    number: str
    created: int

    @property
    def role(self) -> bytes:
        """The frame without a token that a chat stream begins with."""
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None}
        extra = {"prompt_token_ids": None, "prompt_text": None}
        return event({**self._about(True), "choices": [{**choice, "finish_reason": None}], **extra})

    def token(self, text: str, last: bool = False) -> bytes:
        """The event of one token; the last word of a stream bears the fingerprint."""
        asked = self.asked
        reason = asked.finish_reason if last else None
        if asked.chat:
            choice: dict[str, Any] = {"index": 0, "delta": {"content": text}, "logprobs": None}
            choice |= {"finish_reason": reason}
            choice |= {"stop_reason": asked.stop_reason} if last else {}
        else:
            choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
            choice |= {"stop_reason": asked.stop_reason if last else None, "prompt_token_ids": None}
        closing = FINGERPRINT if last and not asked.usage else {}
        return event({**self._about(True), "choices": [{**choice, "token_ids": None}], **closing})

    def around(self) -> tuple[bytes, bytes]:
        """What stands before and after the four plain letters of a token, in all events but the last."""
        before, _, after = self.token("@@@@").partition(b"@@@@")
        return before, after

    def ending(self, cached_tokens: int) -> bytes:
        """Usage, where it was asked for, and the end of the stream."""
        if not self.asked.usage:
            return DONE
        usage = self._usage(cached_tokens)
        return event({**self._about(True), "choices": [], "usage": usage, **FINGERPRINT}) + DONE

    def whole(self, cached_tokens: int) -> bytes:
        """The answer to a request that wants no stream."""
        asked, text = self.asked, self.asked.text.decode()
        ends = {"finish_reason": asked.finish_reason, "stop_reason": asked.stop_reason, "token_ids": None}
        said: dict[str, Any] = {"text": text}
        if asked.chat:
            silent = dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning"))
            said = {"message": {"role": "assistant", "content": text, **silent}}
        untold = dict.fromkeys(("routed_experts",) if asked.chat else UNTOLD_OF_A_CHOICE)
        choice = {"index": 0, **said, "logprobs": None, **ends, **untold}
        usage = {**self._usage(cached_tokens), "completion_tokens_details": None}
        usage["prompt_tokens_details"] |= {"multimodal_tokens": None}
        untold = dict.fromkeys(UNTOLD_OF_A_CHAT if asked.chat else UNTOLD)
        body = {**self._about(False), "choices": [choice], "service_tier": None, **FINGERPRINT}
        return json.dumps({**body, "usage": usage, **untold}, separators=_COMPACT).encode()

    def _about(self, stream: bool) -> dict[str, Any]:
        kind = "text_completion"
        if self.asked.chat:
            kind = "chat.completion.chunk" if stream else "chat.completion"
        name = f"{'chatcmpl' if self.asked.chat else 'cmpl'}-{self.number}"
        return {"id": name, "object": kind, "created": self.created, "model": self.asked.model}

    def _usage(self, cached_tokens: int) -> dict[str, Any]:
        asked = self.asked
        created = {"created_cache_tokens": asked.prompt_tokens - cached_tokens} if asked.chat else {}
        return {
            "prompt_tokens": asked.prompt_tokens,
            "total_tokens": asked.prompt_tokens + asked.output_tokens,
            "completion_tokens": asked.output_tokens,
            "prompt_tokens_details": {"cached_tokens": cached_tokens, **created},
        }
