"""What an exchange's bytes meant: tokens with their times, usage, and how the request ended. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httptools

from kilocard.load.answer import ODD_SHAPES, json_of, message_of, short, usage_of
from kilocard.load.connection import End, Exchange
from kilocard.load.sse import Event, sse_events
from kilocard.record import Status

DELTA_TEXTS = ("content", "reasoning_content", "reasoning")
REFUSALS = (429, 503)
TAGS = {b"x-model-version": "model_version", b"x-replica": "replica", b"x-node": "node"}
LONGEST_TAG = 256
NO_LAST_WORD = "the stream ended without a finish reason, or [DONE] after a token"


@dataclass(slots=True)
class Outcome:
    """One request's end. Times are on the clock of the reads; a chunk is an event with a non-empty delta."""

    status: Status = Status.LOST
    http_status: int | None = None
    error: str | None = None
    chunk_times: list[float] = field(default_factory=list)
    chunk_texts: list[str] = field(default_factory=list)
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    """Who answered, where a gateway's headers tell it: columns of the request table."""
    finished: bool = False
    """The stream said its last word: a finish reason, or `[DONE]` after a token."""


class Body:
    """Splits reads into HTTP body pieces, each with the time of the read that brought it."""

    def __init__(self, reads: list[tuple[float, bytes]]) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._now = 0.0
        self.pieces: list[tuple[float, bytes]] = []
        self.http_status: int | None = None
        self.content_type = ""
        self.retry_after = ""
        self.tags: dict[str, str] = {}
        self._feed(reads)

    @property
    def content(self) -> bytes:
        """All of it."""
        return b"".join(piece for _, piece in self.pieces)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        lowered = name.lower()
        if lowered == b"content-type":
            self.content_type = value.decode("latin-1").lower()
        elif lowered == b"retry-after":
            self.retry_after = value[:LONGEST_TAG].decode("latin-1")
        elif lowered in TAGS and value:
            self.tags[TAGS[lowered]] = value[:LONGEST_TAG].decode("latin-1")

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self.http_status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self.pieces.append((self._now, body))

    def _feed(self, reads: list[tuple[float, bytes]]) -> None:
        for self._now, data in reads:
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade):
                return


def read_outcome(exchange: Exchange) -> Outcome:
    """Parse the reads of an ended exchange and judge it; an answer of any shape is an outcome."""
    body = Body(exchange.reads)
    outcome = Outcome(http_status=body.http_status, tags=body.tags)
    if body.http_status == 200 and "text/event-stream" in body.content_type:
        _take_stream(outcome, body)
    elif body.http_status is not None:
        _take_plain_answer(outcome, body)
    _judge(outcome, exchange)
    return outcome


def _take_stream(outcome: Outcome, body: Body) -> None:
    for event in sse_events(body.pieces):
        try:
            _take_event(outcome, event)
        except ODD_SHAPES:
            outcome.error = outcome.error or f"an event that is no OpenAI chunk: {short(event.data)}"


def _take_event(outcome: Outcome, event: Event) -> None:
    if event.name == b"error":
        _take_error(outcome, _complaint(event.data))
        return
    if event.data.strip() == b"[DONE]":
        outcome.finished |= bool(outcome.chunk_times)
        return
    said = json_of(event.data)
    if said.get("error") or said.get("object") == "error":
        _take_error(outcome, said.get("error") or said)
    text = ""
    for choice in said.get("choices") or ():
        text += _delta_text(choice)
        outcome.finished |= bool(choice.get("finish_reason"))
    if text:
        outcome.chunk_times.append(event.time)
        outcome.chunk_texts.append(text)
    if said.get("usage") is not None:
        _take_usage(outcome, said["usage"])


def _delta_text(choice: dict[str, Any]) -> str:
    delta = choice.get("delta") or {}
    text = (choice.get("text") or "") + "".join(delta.get(name) or "" for name in DELTA_TEXTS)
    return text or (json.dumps(delta["tool_calls"]) if delta.get("tool_calls") else "")


def _take_usage(outcome: Outcome, told: Any) -> None:
    try:
        usage = usage_of(told)
    except ValueError as error:
        outcome.error = outcome.error or str(error)
        return
    outcome.prompt_tokens = usage.prompt_tokens
    outcome.cached_tokens = usage.cached_tokens
    outcome.output_tokens = usage.output_tokens


def _complaint(data: bytes) -> Any:
    """What an event named `error` carries: OpenAI's shape, or any text."""
    try:
        said = json_of(data)
    except ValueError:
        return data or b"an error event without a word"
    return said.get("error") or said if isinstance(said, dict) else said


def _take_error(outcome: Outcome, error: Any) -> None:
    code = error.get("code") if isinstance(error, dict) else None
    refused = code in REFUSALS and not outcome.chunk_times
    outcome.status = Status.REFUSED if refused else Status.ERROR
    outcome.error = f"{short(code)}: {message_of(error)}" if code else message_of(error)


def _take_plain_answer(outcome: Outcome, body: Body) -> None:
    try:
        answer = json_of(body.content)
    except ValueError:
        answer = body.content
    if isinstance(answer, dict):
        answer = answer.get("error") or answer.get("message") or answer.get("detail") or answer
    outcome.status = Status.REFUSED if body.http_status in REFUSALS else Status.ERROR
    wanted_stream = "the answer is not a stream" if body.http_status == 200 else f"HTTP {body.http_status}"
    again = f" (retry-after: {short(body.retry_after)})" if body.retry_after else ""
    outcome.error = f"{wanted_stream}: {message_of(answer)}{again}"


WIRE_STATUS = {
    End.UNREACHABLE: Status.REFUSED,
    End.TIMEOUT: Status.TIMEOUT,
    End.CANCELLED: Status.CANCELLED,
    End.GARBLED: Status.ERROR,
    End.CLIENT_FAULT: Status.ERROR,
}


def _judge(outcome: Outcome, exchange: Exchange) -> None:
    """What the engine said outweighs how the wire ended; without its last word a stream is lost."""
    if outcome.status is not Status.LOST:
        return
    if outcome.error is not None:
        outcome.status = Status.ERROR
    elif exchange.end in WIRE_STATUS:
        outcome.status, outcome.error = WIRE_STATUS[exchange.end], exchange.detail
    elif outcome.finished:
        outcome.status = Status.OK
    else:
        outcome.error = exchange.detail or NO_LAST_WORD
