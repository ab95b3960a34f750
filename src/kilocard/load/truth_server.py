"""A server that plays an engine by a known schedule, logs what it really served, and fails on demand.

The load generator is checked against it: `python -m kilocard.load.truth_server --port 8000`. The first token
is due `ttft` seconds after a request was read and the others follow `tpot` apart, `chunk` of them packed into
one event; a token's time is taken right before its bytes are written to the socket. `GET /truth` tells all.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any, cast

import httptools
import uvloop

from kilocard.load.truth_script import Fault, Script, Served, from_arguments

MODEL = "truth"
OWNER = "kilocard-truth-server"
CONTEXT = 32_768


def _chunked(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


def _event(body: dict[str, Any]) -> bytes:
    return _chunked(b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n")


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"
DONE = _chunked(b"data: [DONE]\n\n")
REASONS = {
    400: "Bad Request",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Truth:
    """The server's state: its script, its log, and the events of a stream, built once."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.log: list[Served] = []
        self._tokens: dict[tuple[bool, int], bytes] = {}

    def tokens(self, chat: bool, count: int) -> bytes:
        """The event that carries `count` tokens."""
        key = chat, count
        if key not in self._tokens:
            self._tokens[key] = self._choice(chat, " the" * count, None)
        return self._tokens[key]

    def role(self, chat: bool) -> bytes:
        """A frame without a token, as chat streams begin with."""
        return self._choice(chat, "", None, {"role": "assistant"} if chat else {})

    def finish(self, chat: bool, served: Served) -> bytes:
        """Finish reason, usage, [DONE]."""
        usage = {
            "prompt_tokens": served.prompt_tokens,
            "completion_tokens": served.output_tokens,
            "total_tokens": served.prompt_tokens + served.output_tokens,
            "prompt_tokens_details": {"cached_tokens": self.script.cached_tokens},
        }
        last = _event({**self._head(chat), "choices": [], "usage": usage})
        return self._choice(chat, "", "length") + last + DONE + LAST_CHUNK

    def _head(self, chat: bool) -> dict[str, Any]:
        kind = "chat.completion.chunk" if chat else "text_completion"
        return {"id": "truth-1", "object": kind, "created": 1, "model": MODEL}

    def _choice(
        self, chat: bool, text: str, reason: str | None, extra: dict[str, Any] | None = None
    ) -> bytes:
        name = "reasoning_content" if self.script.reasoning else "content"
        said: dict[str, Any] = {"delta": {**(extra or {}), name: text}} if chat else {"text": text}
        return _event({**self._head(chat), "choices": [{"index": 0, **said, "finish_reason": reason}]})


class TruthProtocol(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._parser = httptools.HttpRequestParser(self)
        self._timer: asyncio.TimerHandle | None = None
        self._path, self._content, self._request_id = "", b"", ""
        self._read_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, and its descriptor for writes that are not put off."""
        self._transport = cast(asyncio.Transport, transport)
        self._descriptor = transport.get_extra_info("socket").fileno()

    def connection_lost(self, exc: Exception | None) -> None:
        """A client that hangs up ends its stream."""
        if self._timer:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Stamp, then parse; the work waits until all other sockets that are readable have been stamped."""
        self._read_at = perf_counter()
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """A new request."""
        self._path, self._content, self._request_id = "", b"", ""

    def on_url(self, url: bytes) -> None:
        """Its path."""
        self._path = url.decode("latin-1").partition("?")[0]

    def on_header(self, name: bytes, value: bytes) -> None:
        """Its id."""
        if name.lower() == b"x-request-id":
            self._request_id = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Its JSON."""
        self._content += body

    def on_message_complete(self) -> None:
        """Answer it."""
        asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self) -> None:
        if self._path.endswith("completions"):
            self._complete(json.loads(self._content))
        elif self._path.endswith("/v1/models"):
            model = {"id": MODEL, "object": "model", "owned_by": OWNER, "max_model_len": CONTEXT}
            self._json(200, {"object": "list", "data": [model]})
        elif self._path.endswith("/truth"):
            self._json(200, [asdict(served) for served in self._truth.log])
        elif self._path.endswith("/health"):
            self._json(200, {})
        else:
            self._json(404, {"detail": "Not Found"})

    def _complete(self, body: dict[str, Any]) -> None:
        script, log = self._truth.script, self._truth.log
        self._served = Served(self._request_id, _prompt_tokens(body), int(body.get("max_tokens") or 16))
        self._fault = script.fault_of(len(log))
        self._served.fault = self._fault and self._fault.value
        log.append(self._served)
        self._chat, self._sent, self._head_sent = "messages" in body, 0, False
        if self._fault is None or not self._fail_at_once(self._fault):
            if script.role_frame:
                self._stream(self._truth.role(self._chat))
            self._due = self._read_at + script.ttft_s
            self._schedule()

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(max(0.0, self._due - perf_counter()), self._tick)

    def _tick(self) -> None:
        served, script = self._served, self._truth.script
        if self._fault and self._sent >= served.output_tokens // 2:
            self._fail_midway(self._fault)
            return
        count = 1 if self._sent == 0 else min(script.chunk, served.output_tokens - self._sent)
        now = perf_counter() - self._read_at
        served.first_token_s = now if served.first_token_s is None else served.first_token_s
        served.last_token_s = now
        self._stream(self._truth.tokens(self._chat, count))
        self._sent += count
        if self._sent >= served.output_tokens:
            self._stream(self._truth.finish(self._chat, served))
            return
        self._due += script.tpot_s * min(script.chunk, served.output_tokens - self._sent)
        self._schedule()

    def _fail_at_once(self, fault: Fault) -> bool:
        if fault is Fault.HANG_BEFORE:
            return True
        if fault.value.isdigit():
            self._json(
                int(fault.value),
                {"error": {"message": f"told to answer {fault.value}", "code": int(fault.value)}},
            )
        elif fault is Fault.REFUSAL_EVENT:
            self._stream(_event({"error": {"message": "the queue is full", "code": 503}}) + DONE + LAST_CHUNK)
        elif fault is Fault.GARBAGE:
            self._write(b"\x00\x01 this is not HTTP\r\n\r\n")
        else:
            return False
        return True

    def _fail_midway(self, fault: Fault) -> None:
        if fault is Fault.EXIT:
            os._exit(1)
        elif fault is Fault.ERROR_EVENT:
            self._stream(
                _event({"error": {"message": "the engine is shutting down", "code": 500}}) + DONE + LAST_CHUNK
            )
        elif fault is Fault.NO_LAST_WORD:
            self._stream(LAST_CHUNK)
        elif fault is Fault.TRUNCATE:
            self._stream(self._truth.tokens(self._chat, 1)[:-20])
            self._transport.close()
        elif fault is Fault.RESET:
            linger = (1).to_bytes(4, sys.byteorder) + (0).to_bytes(4, sys.byteorder)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._transport.abort()

    def _stream(self, content: bytes) -> None:
        self._write(content if self._head_sent else STREAM_HEAD + content)
        self._head_sent = True

    def _json(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} {REASONS.get(status, 'OK')}\r\ncontent-type: application/json\r\n"
        self._write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)

    def _write(self, content: bytes) -> None:
        """To the socket at once: the event loop would put it off to the end of its turn."""
        written = 0
        if not self._transport.get_write_buffer_size() and not self._transport.is_closing():
            try:
                written = os.write(self._descriptor, content)
            except OSError:
                written = 0
        if written < len(content):
            self._transport.write(content[written:])


def _prompt_tokens(body: dict[str, Any]) -> int:
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        return len(prompt)
    said = prompt or " ".join(str(message.get("content")) for message in body.get("messages", ()))
    return len(str(said).split())


async def _serve(port: int, script: Script) -> None:
    truth = Truth(script)
    server = await asyncio.get_running_loop().create_server(
        lambda: TruthProtocol(truth), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until stopped."""
    port, script = from_arguments(arguments)
    gc.freeze()
    try:
        uvloop.run(_serve(port, script))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
