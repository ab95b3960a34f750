"""What came back to the client of the comparison of gateways, read and judged when all is over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import httptools
from gateway_client import Exchange
from gateway_frames import answer


@dataclass(slots=True)
class Told:
    """What an exchange meant. `status`: ok, refused, error, cut or timeout."""

    request_id: str
    status: str
    begun: float
    late_s: float = 0.0
    first_token: float | None = None
    last_token: float | None = None
    tokens: int = 0
    text: str = ""
    http_status: int = 0
    detail: str = ""


class _Body:
    """Takes the HTTP away from the reads; each piece keeps its time."""

    def __init__(self, reads: Sequence[tuple[float, bytes]]) -> None:
        self.pieces: list[tuple[float, bytes]] = []
        self._now, self.status = 0.0, 0
        self._parser = httptools.HttpResponseParser(self)
        try:
            for self._now, data in reads:
                self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            pass

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.pieces.append((self._now, body))


def read(exchange: Exchange, start: float) -> Told:
    """Judge an ended exchange: ok only with all the tokens asked for, in order, and the last word."""
    ask, body = exchange.ask, _Body(exchange.reads)
    late_s = 0.0 if ask.due_s is None else exchange.begun - start - ask.due_s
    told = Told(ask.request_id, "cut", exchange.begun, late_s, http_status=body.status)
    told.detail = exchange.end
    content = b"".join(piece for _, piece in body.pieces)
    if body.status in (429, 503):
        told.status = "refused"
    elif body.status not in (0, 200):
        told.status, told.detail = "error", f"HTTP {body.status}: {content[:120].decode(errors='replace')}"
    elif exchange.end == "timeout":
        told.status = "timeout"
    elif exchange.end == "unreachable":
        told.status = "error"
    elif ask.is_streamed:
        _read_stream(told, body.pieces, ask.tokens)
    elif exchange.end == "complete":
        _read_answer(told, exchange.reads, content, ask.tokens)
    return told


def _read_stream(told: Told, pieces: Sequence[tuple[float, bytes]], tokens: int) -> None:
    texts, finished, rest = list[str](), False, b""
    for moment, piece in pieces:
        *events, rest = (rest + piece).split(b"\n\n")
        for event in events:
            data = event.removeprefix(b"data: ")
            if not data.startswith(b"{"):
                continue
            said = json.loads(data)
            if said.get("error"):
                told.status, told.detail = "error", f"in the stream: {said['error']}"[:160]
                return
            for choice in said.get("choices") or ():
                finished |= bool(choice.get("finish_reason"))
                if text := (choice.get("delta") or {}).get("content"):
                    texts.append(text)
                    told.first_token = told.first_token or moment
                    told.last_token = moment
    told.tokens, told.text = len(texts), "".join(texts)
    if finished and told.text == answer(tokens):
        told.status = "ok"
    else:
        told.detail = f"{told.tokens} of {tokens} tokens{', out of order' if finished else ''}"


def _read_answer(told: Told, reads: Sequence[tuple[float, bytes]], content: bytes, tokens: int) -> None:
    told.text = str(json.loads(content)["choices"][0]["message"]["content"])
    told.first_token = told.last_token = reads[-1][0]
    told.tokens = tokens
    told.status = "ok" if told.text == answer(tokens) else "cut"
