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
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from http.client import HTTPConnection
from time import monotonic, perf_counter, sleep
from typing import Any, Self, cast

import httptools
import uvloop

MODEL = "truth"
OWNER = "kilocard-truth-server"
CONTEXT = 32_768


class Fault(StrEnum):
    """What a request can meet."""

    HANG_BEFORE = "hang-before"
    """No byte is sent."""
    HANG_AFTER = "hang-after"
    """Silent after half of the tokens."""
    HTTP_400 = "400"
    HTTP_429 = "429"
    HTTP_500 = "500"
    HTTP_503 = "503"
    ERROR_EVENT = "error-event"
    """An error event after half of the tokens of a 200 stream, and then an orderly end with [DONE]."""
    REFUSAL_EVENT = "refusal-event"
    """A 200 stream whose first event says 503, as vLLM's bounded queue does."""
    NO_LAST_WORD = "no-last-word"
    """The stream ends in order after half of the tokens, but with neither finish reason nor [DONE]."""
    TRUNCATE = "truncate"
    """The connection is closed in the middle of an event."""
    RESET = "reset"
    """The connection is reset."""
    GARBAGE = "garbage"
    """An answer that is not HTTP."""
    EXIT = "exit"
    """The whole server dies."""


@dataclass(frozen=True, slots=True)
class Script:
    """How the server behaves. `faults` maps a request's number, from 0, to what it meets; -1 is every one."""

    ttft_s: float = 0.05
    tpot_s: float = 0.01
    chunk: int = 1
    role_frame: bool = False
    reasoning: bool = False
    cached_tokens: int = 0
    faults: dict[int, Fault] = field(default_factory=dict)

    def fault_of(self, number: int) -> Fault | None:
        """What the request with this number meets."""
        return self.faults.get(number, self.faults.get(-1))


@dataclass(slots=True)
class Served:
    """What one request really got. Times are seconds since it was read."""

    request_id: str
    prompt_tokens: int
    output_tokens: int
    first_token_s: float | None = None
    last_token_s: float | None = None
    fault: str | None = None


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


@dataclass(slots=True)
class TruthServer:
    """A running server, in a process of its own."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def served(self) -> list[Served]:
        """Its log so far."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", "/truth")
            return [Served(**row) for row in json.load(connection.getresponse())]
        finally:
            connection.close()

    def kill(self) -> None:
        """As an engine dies: without a word."""
        self.process.kill()
        self.process.wait()

    def _await_ready(self, timeout_s: float = 30.0) -> Self:
        deadline = monotonic() + timeout_s
        while monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                sleep(0.02)
            else:
                return self
        raise RuntimeError(f"the truth server does not listen on port {self.port}")


@contextmanager
def truth_server(script: Script | None = None, port: int | None = None) -> Iterator[TruthServer]:
    """Run one in a process of its own, and stop it afterwards."""
    port = port or _free_port()
    command = [sys.executable, "-m", "kilocard.load.truth_server", "--port", str(port)]
    process = subprocess.Popen([*command, *_arguments(script or Script())])
    try:
        yield TruthServer(port, process)._await_ready()
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _arguments(script: Script) -> list[str]:
    arguments = [
        "--ttft",
        str(script.ttft_s),
        "--tpot",
        str(script.tpot_s),
        "--chunk",
        str(script.chunk),
        "--cached",
        str(script.cached_tokens),
    ]
    arguments += ["--role"] if script.role_frame else []
    arguments += ["--reasoning"] if script.reasoning else []
    for number, fault in script.faults.items():
        arguments += ["--fault", f"{fault.value}@{'all' if number < 0 else number}"]
    return arguments


def _fault_at(text: str) -> tuple[int, Fault]:
    """`500@3` or `500@all`."""
    fault, _, number = text.partition("@")
    return (-1 if number == "all" else int(number)), Fault(fault)


def _parse(arguments: Sequence[str] | None) -> tuple[int, Script]:
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ttft", type=float, default=0.05)
    parser.add_argument("--tpot", type=float, default=0.01)
    parser.add_argument("--chunk", type=int, default=1, help="tokens packed into one event")
    parser.add_argument("--cached", type=int, default=0, help="cached prompt tokens that usage tells")
    parser.add_argument("--role", action="store_true", help="begin with a frame without a token")
    parser.add_argument("--reasoning", action="store_true", help="chat deltas are reasoning")
    parser.add_argument(
        "--fault",
        type=_fault_at,
        action="append",
        default=[],
        metavar="FAULT@N",
        help=f"N from 0, or all; {', '.join(Fault)}",
    )
    given = parser.parse_args(arguments)
    faults = dict(given.fault)
    return given.port, Script(
        given.ttft, given.tpot, given.chunk, given.role, given.reasoning, given.cached, faults
    )


async def _serve(port: int, script: Script) -> None:
    truth = Truth(script)
    server = await asyncio.get_running_loop().create_server(
        lambda: TruthProtocol(truth), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until stopped."""
    port, script = _parse(arguments)
    gc.freeze()
    try:
        uvloop.run(_serve(port, script))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
