"""How a streamed request ended, judged by its bytes alone: each end has one name, and none is guessed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum

import httptools
from gateway_client import Exchange


class End(StrEnum):
    """What became of a request."""

    OK = "ok"
    REFUSED = "refused"
    """503 or 429, with the time to come again."""
    REPORTED = "reported error"
    """Another HTTP status, or an error event in the stream."""
    HUNG_UP = "hung up"
    """By the client itself, as some do."""
    CUT = "silently cut"
    """Fewer tokens than the stream owes, and not a word about it; or no answer at all."""
    TWICE = "twice"
    """More tokens than asked for, another request's, or two last words."""
    UNANSWERED = "unanswered"
    """Nothing for as long as the client waits."""


@dataclass(slots=True)
class Answer:
    """One judged request."""

    request_id: str
    end: End
    begun: float
    ended: float
    replica: str = ""
    tokens: int = 0
    detail: str = ""


@dataclass(slots=True)
class _Said:
    """What the bytes hold."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""
    texts: int = 0
    usage: int | None = None
    finishes: int = 0
    dones: int = 0
    error: str = ""
    ids: set[str] = field(default_factory=set)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.content += body

    def take_events(self) -> None:
        for event in self.content.split(b"\n\n"):
            data = event.removeprefix(b"data: ")
            if data == b"[DONE]":
                self.dones += 1
            elif data.startswith(b"{"):
                try:
                    said = json.loads(data)
                except ValueError:
                    continue  # an event that was cut
                self._take(said)
            elif event.startswith(b"event: error"):
                self.error = self.error or event.decode(errors="replace")[:160]

    def _take(self, said: dict[str, object]) -> None:
        if said.get("error"):
            self.error = self.error or str(said["error"])[:160]
            return
        self.ids.add(str(said.get("id")))
        usage, choices = said.get("usage"), said.get("choices")
        if isinstance(usage, dict):
            self.usage = int(usage["completion_tokens"])
        for choice in choices if isinstance(choices, list) else ():
            self.texts += bool((choice.get("delta") or {}).get("content"))
            self.finishes += bool(choice.get("finish_reason"))


def judge(exchange: Exchange, was_hung_up: bool) -> Answer:
    """Of an exchange that has ended."""
    said = _read(exchange)
    ended = exchange.reads[-1][0] if exchange.reads else exchange.begun
    end, detail = _end_of(exchange, said, was_hung_up)
    replica = said.headers.get("x-replica", "")
    return Answer(exchange.ask.request_id, end, exchange.begun, ended, replica, said.texts, detail)


def _read(exchange: Exchange) -> _Said:
    said = _Said()
    parser = httptools.HttpResponseParser(said)
    try:
        for _, data in exchange.reads:
            parser.feed_data(data)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        pass
    if exchange.reads and said.headers:
        said.status = parser.get_status_code()
    said.take_events()
    return said


def _end_of(exchange: Exchange, said: _Said, was_hung_up: bool) -> tuple[End, str]:
    owed = exchange.ask.tokens
    if said.status in (429, 503):
        told, why = "retry-after" in said.headers, said.content[:120].decode(errors="replace")
        return (End.REFUSED, why) if told else (End.REPORTED, f"HTTP {said.status} without Retry-After")
    if said.status not in (0, 200):
        return End.REPORTED, f"HTTP {said.status}: {said.content[:120].decode(errors='replace')}"
    if said.texts > owed or said.dones > 1 or said.finishes > 1 or len(said.ids) > 1:
        return End.TWICE, f"{said.texts} of {owed} tokens, {said.dones} [DONE], ids {len(said.ids)}"
    if said.error:
        return End.REPORTED, said.error
    if said.texts == said.usage == owed and said.finishes == said.dones == 1 and exchange.end == "complete":
        return End.OK, ""
    if was_hung_up:
        return End.HUNG_UP, ""
    if exchange.end == "timeout":
        return End.UNANSWERED, f"after {said.texts} tokens"
    return End.CUT, f"{exchange.end}: HTTP {said.status}, {said.texts} of {owed} tokens"
