"""What an exchange's bytes meant: tokens with their times, usage, and how the request ended. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httptools

from kilocard.load.connection import End, Exchange
from kilocard.record import Status

DELTA_TEXTS = ("content", "reasoning_content", "reasoning")
REFUSALS = (429, 503)
MESSAGE_LIMIT = 300


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
    finished: bool = False
    """The stream said its last word: a finish reason, or `[DONE]`."""


class _Body:
    """Splits reads into HTTP body pieces, each with the time of the read that brought it."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.now = 0.0
        self.pieces: list[tuple[float, bytes]] = []
        self.http_status: int | None = None
        self.content_type = ""

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self.content_type = value.decode("latin-1").lower()

    def on_headers_complete(self) -> None:
        self.http_status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.pieces.append((self.now, body))

    def feed(self, reads: list[tuple[float, bytes]]) -> None:
        for self.now, data in reads:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserError:
                return


def read_outcome(exchange: Exchange) -> Outcome:
    """Parse the reads of an ended exchange and judge it."""
    body = _Body()
    body.feed(exchange.reads)
    outcome = Outcome(http_status=body.http_status)
    if body.http_status == 200 and "text/event-stream" in body.content_type:
        _take_stream(outcome, body)
    elif body.http_status is not None:
        _take_plain_answer(outcome, body)
    _judge(outcome, exchange)
    return outcome


def _take_stream(outcome: Outcome, body: _Body) -> None:
    for time, data in sse_events(body.pieces):
        try:
            _take_event(outcome, time, data)
        except (ValueError, TypeError, AttributeError):
            outcome.error = outcome.error or f"an event that is no OpenAI chunk: {_short(data)}"


def sse_events(pieces: list[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
    """Server-sent events as (time of the read that completed it, data), without comments and other fields.

    A last event without its blank line is dropped, as the standard wants:
    https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """
    events: list[tuple[float, bytes]] = []
    data: list[bytes] = []
    rest = b""
    for time, piece in pieces:
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        for line in (raw.removesuffix(b"\r") for raw in lines):
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                events.append((time, b"\n".join(data)))
                data = []
    return events


def _take_event(outcome: Outcome, time: float, data: bytes) -> None:
    if data.strip() == b"[DONE]":
        outcome.finished = True
        return
    event = json.loads(data)
    if event.get("error"):
        _take_error_event(outcome, event["error"])
    _take_usage(outcome, event.get("usage"))
    text = ""
    for choice in event.get("choices") or ():
        text += _delta_text(choice)
        outcome.finished |= bool(choice.get("finish_reason"))
    if text:
        outcome.chunk_times.append(time)
        outcome.chunk_texts.append(text)


def _delta_text(choice: dict[str, Any]) -> str:
    delta = choice.get("delta") or {}
    text = (choice.get("text") or "") + "".join(delta.get(name) or "" for name in DELTA_TEXTS)
    return text or (json.dumps(delta["tool_calls"]) if delta.get("tool_calls") else "")


def _take_usage(outcome: Outcome, usage: dict[str, Any] | None) -> None:
    if not usage:
        return
    outcome.prompt_tokens = usage.get("prompt_tokens")
    outcome.output_tokens = usage.get("completion_tokens")
    outcome.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")


def _take_error_event(outcome: Outcome, error: Any) -> None:
    code = error.get("code") if isinstance(error, dict) else None
    refused = code in REFUSALS and not outcome.chunk_times
    outcome.status = Status.REFUSED if refused else Status.ERROR
    outcome.error = f"{code}: {_message(error)}" if code else _message(error)


def _take_plain_answer(outcome: Outcome, body: _Body) -> None:
    content = b"".join(piece for _, piece in body.pieces)
    try:
        answer = json.loads(content)
    except ValueError:
        answer = _short(content)
    if isinstance(answer, dict):
        answer = answer.get("error") or answer.get("message") or answer.get("detail") or answer
    outcome.status = Status.REFUSED if body.http_status in REFUSALS else Status.ERROR
    wanted_stream = "the answer is not a stream" if body.http_status == 200 else f"HTTP {body.http_status}"
    outcome.error = f"{wanted_stream}: {_message(answer)}"


def _message(error: Any) -> str:
    return _short(str(error.get("message") or error) if isinstance(error, dict) else str(error))


def _short(text: str | bytes) -> str:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    text = " ".join(text.split())
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


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
        outcome.error = exchange.detail or "the stream ended without a finish reason or [DONE]"
