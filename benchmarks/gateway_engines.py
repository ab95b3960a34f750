"""Fake engines for the comparison of gateways: an OpenAI-compatible server that knows nothing of Kilocard.

    python gateway_engines.py --script '{"tpot_s": 0.005, "slow": {"3": 5}}' --ports 8001,8002,8003,8004

All engines run in one process, a port each. An engine gives every request a token each `tpot_s` × max(1,
requests in it ÷ `seats`) × its slowness: they share it as processes share a core. A prompt is prefilled one
after another, `prefill_s` for each token that the engine's own prefix cache (least recently used, blocks of
words) does not hold. How long the answer is, the last word of the prompt says (`tokens=400`), so that nobody
on the way knows. `/fake/served` tells what was really served, on the clock of `time.perf_counter`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
from dataclasses import asdict
from time import perf_counter
from typing import Any

import httptools
import uvloop
from gateway_engine import Clock, Engine, Script, Served, Stream
from gateway_frames import MODELS, STREAM_HEAD, last_events, token_event, whole_answer, words_of

TOKENS_WORD = "tokens="


class Line(asyncio.Protocol):
    """A connection: one request after another."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._body, self._request_id = b"", b"", ""
        self._stream: Stream | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._descriptor = transport.get_extra_info("socket").fileno()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stream is not None:
            self._engine.leave(self._stream, "hung up")

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._parser = httptools.HttpRequestParser(self)
        except httptools.HttpParserError:
            self._transport.close()

    def on_message_begin(self) -> None:
        self._url, self._body, self._request_id = b"", b"", ""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"x-request-id":
            self._request_id = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        path = self._url.partition(b"?")[0].decode("latin-1")
        if path in ("/v1/chat/completions", "/v1/completions"):
            self._complete(json.loads(self._body), is_chat=path.startswith("/v1/chat"))
        else:
            self._answer(path)

    def token(self, stream: Stream) -> None:
        """One event of a stream; another kind of answer is sent whole."""
        if stream.is_streamed:
            served = stream.served
            content = token_event(served.request_id, stream.is_chat, served.output_tokens - 1)
            self._write(STREAM_HEAD + content if served.output_tokens == 1 else content)

    def last_word(self, stream: Stream) -> None:
        """The end of a stream, or the whole answer."""
        self._stream = None
        served = stream.served
        usage = {
            "prompt_tokens": served.prompt_tokens,
            "completion_tokens": served.output_tokens,
            "total_tokens": served.prompt_tokens + served.output_tokens,
            "prompt_tokens_details": {"cached_tokens": served.cached_tokens},
        }
        if stream.is_streamed:
            self._write(last_events(served.request_id, stream.is_chat, usage))
        else:
            self._json(whole_answer(served.request_id, stream.is_chat, usage))

    def _complete(self, body: dict[str, Any], is_chat: bool) -> None:
        words = words_of(body, is_chat)
        length = words[-1].removeprefix(TOKENS_WORD) if words and words[-1].startswith(TOKENS_WORD) else ""
        tokens = int(length or body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        number = str(body.get("user") or self._request_id)
        served = Served(number, self._engine.number, perf_counter(), len(words))
        self._stream = Stream(self._engine, self, served, words, tokens, bool(body.get("stream")), is_chat)
        self._engine.submit(self._stream)

    def _answer(self, path: str) -> None:
        engine = self._engine
        if path == "/v1/models":
            self._json(MODELS)
        elif path in ("/health", "/ping"):
            self._whole(200, b"")
        elif path == "/version":
            self._json({"version": "0.11.0"})
        elif path == "/metrics" and engine.script.has_metrics:
            self._whole(200, engine.metrics(), "text/plain; version=0.0.4")
        elif path == "/fake/served":
            self._json([asdict(served) for served in engine.log])
        elif path == "/fake/slow":
            engine.slow = float(self._body)
            self._json({"slow": engine.slow})
        else:
            self._json({"detail": "Not Found"}, 404)

    def _json(self, content: Any, status: int = 200) -> None:
        self._whole(status, json.dumps(content).encode())

    def _whole(self, status: int, content: bytes, kind: str = "application/json") -> None:
        head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Not Found'}\r\ncontent-type: {kind}\r\n"
        self._write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)

    def _write(self, content: bytes) -> None:
        """To the socket at once: the loop would put it off to the end of its turn."""
        if self._transport.is_closing():
            return
        written = 0
        if not self._transport.get_write_buffer_size():
            try:
                written = os.write(self._descriptor, content)
            except OSError:
                written = 0
        if written < len(content):
            self._transport.write(content[written:])


async def _serve(script: Script, ports: list[int]) -> None:
    loop, clock = asyncio.get_running_loop(), Clock()
    for number, port in enumerate(ports):
        engine = Engine(number, script, clock)
        await loop.create_server(lambda engine=engine: Line(engine), "127.0.0.1", port, backlog=4096)
    await asyncio.Event().wait()


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--script", type=lambda text: Script(**json.loads(text)), default=Script())
    parser.add_argument("--ports", type=lambda text: [int(port) for port in text.split(",")], required=True)
    options = parser.parse_args()
    gc.freeze()
    gc.disable()
    uvloop.run(_serve(options.script, options.ports))


if __name__ == "__main__":
    main()
