"""Engines that fail as each request asks them to, and hold a stream until a test lets it go on."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

from kilocard.gateway.process import AtWork, gateway_over

MODEL = "m"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
SHUTS_DOWN = {"error": {"message": "the engine is shutting down", "code": 500}}
IS_FULL = {"error": {"message": "the queue is full", "code": 503}}


class Broken(Exception):  # noqa: N818
    """The connection ends here."""


@dataclass(slots=True)
class FailingEngine:
    """A body's `fault` names what happens, `fails` at how many tries of it (all, unless told); `holds` stops
    the stream after its first token until `gate` is open. `tried` is shared by engines of one gateway."""

    tried: Counter[str]
    port: int = 0
    gate: threading.Event = field(default_factory=threading.Event)
    heard: list[dict[str, Any]] = field(default_factory=list)
    hangs_on_probes: bool = False
    metrics: str = ""
    """The page of /metrics; "hang" and "flood" are no pages."""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def id(self) -> str:
        """As the gateway calls it."""
        return f"127.0.0.1:{self.port}"

    def come(self) -> None:
        """Listen, again on the same port."""
        self._do(self._come())

    def die(self) -> None:
        """Without a word: nobody listens, and what was open is reset."""
        self._do(self._die())

    async def _come(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _die(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.transport.abort()

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(Broken, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                content = await reader.readexactly(int(length or 0))
                await self._answer(head, content, writer)
                await writer.drain()
        self._open.discard(writer)
        writer.close()

    async def _answer(self, head: bytes, content: bytes, writer: asyncio.StreamWriter) -> None:
        if head.startswith(b"GET /metrics "):
            await self._tell_metrics(writer)
            return
        if head.startswith(b"GET"):
            row = {"id": MODEL, "object": "model", "max_model_len": 4096, "owned_by": "x", "root": "/secret"}
            _whole(writer, 200, {"object": "list", "data": [row]})
            return
        body = json.loads(content)
        if b"x-request-id: probe-" in head:
            while self.hangs_on_probes:
                await asyncio.sleep(0.01)
            body = {**body, "prompt": "ping"}
        else:
            self.heard.append(body)
        if b"/v1/embeddings" in head:
            _whole(writer, 200, {"object": "list", "data": [{"index": 0, "embedding": [0.5, 1.0]}]})
            return
        fault = self._fault_of(body, head)
        if fault.isdigit():
            _whole(writer, int(fault), {"error": {"message": f"told to say {fault}", "code": int(fault)}})
            return
        await _fail_at_once(fault, writer)
        if body.get("stream"):
            await self._stream(body, "chat" in head.decode(), fault, writer)
        else:
            _whole(writer, 200, _answer(body, "chat" in head.decode()), cut=20 if fault == "short" else 0)
            if fault == "short":
                raise Broken

    async def _tell_metrics(self, writer: asyncio.StreamWriter) -> None:
        if self.metrics == "hang":
            await asyncio.sleep(3600)
        page = b"x" * 2**22 if self.metrics == "flood" else self.metrics.encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(page), page))

    def _fault_of(self, body: dict[str, Any], head: bytes) -> str:
        id = head.partition(b"x-request-id: ")[2].partition(b"\r\n")[0].decode()
        self.tried[id] += 1
        return str(body.get("fault", "")) if self.tried[id] <= body.get("fails", 1_000) else ""

    async def _stream(
        self, body: dict[str, Any], is_chat: bool, fault: str, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(STREAM)
        count = int(body.get("max_tokens") or 4)
        for place in range(count):
            writer.write(_chunk(_token(is_chat, f" t{place}")))
            if place == 0:
                while body.get("holds") and not self.gate.is_set():
                    await asyncio.sleep(0.01)
                await _fail_midway(fault, is_chat, writer)
        writer.write(_chunk(_token(is_chat, "", "length")) + _chunk(_usage(count)) + _chunk(DONE))
        if fault == "cut after the last word":
            raise Broken
        if fault == "hang after the last word":
            await asyncio.sleep(3600)
        writer.write(b"0\r\n\r\n")


async def _fail_at_once(fault: str, writer: asyncio.StreamWriter) -> None:
    if fault == "hang":
        await asyncio.sleep(3600)
    if fault == "close":
        raise Broken
    if fault == "reset":
        writer.transport.abort()
        raise Broken
    if fault == "garbage":
        writer.write(b"\x00\x01 this is not HTTP\r\n\r\n")
        raise Broken
    if fault == "refusal event":
        writer.write(STREAM + _chunk(_event(IS_FULL)) + _chunk(DONE) + b"0\r\n\r\n")
        raise Broken
    if fault == "empty":
        writer.write(STREAM + b"0\r\n\r\n")
        raise Broken


async def _fail_midway(fault: str, is_chat: bool, writer: asyncio.StreamWriter) -> None:
    if not fault or "after the last word" in fault:
        return
    await writer.drain()
    await asyncio.sleep(0.05)
    if fault == "hang midway":
        await asyncio.sleep(3600)
    if fault == "error event":
        writer.write(_chunk(_event(SHUTS_DOWN)) + _chunk(DONE) + b"0\r\n\r\n")
    if fault == "error event beside a token":
        writer.write(_chunk(_token(is_chat, " x") + _event(SHUTS_DOWN) + DONE) + b"0\r\n\r\n")
    if fault == "no last word":
        writer.write(b"0\r\n\r\n")
    if fault == "truncated":
        writer.write(_chunk(_token(is_chat, " x"))[:-20])
    if fault == "bad chunk":
        writer.write(b"zz\r\n")
    if fault == "reset midway":
        writer.transport.abort()
    raise Broken


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _token(is_chat: bool, text: str, reason: str | None = None) -> bytes:
    said: dict[str, Any] = {"delta": {"content": text}} if is_chat else {"text": text}
    kind = "chat.completion.chunk" if is_chat else "text_completion"
    choice = {"index": 0, **said, "finish_reason": reason}
    return _event({"id": "x", "object": kind, "created": 1, "model": MODEL, "choices": [choice]})


def _usage(count: int) -> bytes:
    usage = {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}
    about = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    return _event({**about, "choices": [], "usage": usage})


def _answer(body: dict[str, Any], is_chat: bool) -> dict[str, Any]:
    message = {"role": "assistant", "content": "hello"}
    said: dict[str, Any] = {"message": message} if is_chat else {"text": "hello"}
    kind = "chat.completion" if is_chat else "text_completion"
    usage = {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}
    choice = {"index": 0, **said, "finish_reason": "length"}
    about = {"id": "x", "object": kind, "created": 1, "model": MODEL}
    return {**about, "choices": [choice], "usage": usage}


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


def _whole(writer: asyncio.StreamWriter, status: int, body: dict[str, Any], cut: int = 0) -> None:
    content = json.dumps(body).encode()
    head = b"HTTP/1.1 %d -\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    writer.write(head % (status, len(content)) + content[: len(content) - cut])


@contextmanager
def failing_engines(count: int) -> Iterator[list[FailingEngine]]:
    """Run some in a thread, on free ports."""
    tried: Counter[str] = Counter()
    with ExitStack() as stack:
        yield [stack.enter_context(_running(FailingEngine(tried))) for _ in range(count)]


@contextmanager
def _running(engine: FailingEngine) -> Iterator[FailingEngine]:
    loop = engine._loop
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        engine.come()
        yield engine
    finally:
        engine.die()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
            with suppress(asyncio.CancelledError, OSError, Broken):
                loop.run_until_complete(task)
        loop.close()


@contextmanager
def before(engines: list[FailingEngine], drain_s: float = 5.0, **gateway: Any) -> Iterator[AtWork]:
    """A gateway with all of them in one pool, no cap, and time-outs that tests can wait for."""
    replicas = [{"url": f"http://{its.id}", "node": f"n{at}"} for at, its in enumerate(engines)]
    timeouts = {"connect_s": 1, "first_byte_s": 1, "between_chunks_s": 1}
    told = {"timeouts": timeouts, "retries": {"most": 2, "budget": 1.0}, **gateway}
    pool = {"name": "p", "cap": 0, "replicas": replicas}
    with gateway_over(
        {"name": "t", "model": MODEL, "pools": [pool], "gateway": told}, drain_s=drain_s
    ) as running:
        yield running


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client got, to its end."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def error(self) -> dict[str, Any]:
        """What a whole answer says went wrong."""
        told: dict[str, Any] = json.loads(self.content)["error"]
        return told

    @property
    def last_event(self) -> bytes:
        """Of a stream."""
        return self.content.rstrip(b"\n").rpartition(b"\n\n")[2]


def ask(
    gateway: AtWork, path: str = "/v1/completions", headers: dict[str, str] | None = None, **body: Any
) -> Answer:
    """One request, read to its end; a cut answer raises IncompleteRead."""
    connection = HTTPConnection(gateway.url.removeprefix("http://"), timeout=30)
    try:
        content = json.dumps({"model": MODEL, "prompt": "a", "stream": True, **body})
        connection.request("POST", path, content, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, told, answer.read())
    finally:
        connection.close()


def state_of(gateway: AtWork, engine: FailingEngine) -> str:
    """As the gateway sees it."""
    return str(next(row["state"] for row in gateway.replicas() if row["id"] == engine.id))


def in_flight(gateway: AtWork) -> int:
    """By the gateway's own count."""
    return sum(row["in_flight"] for row in gateway.replicas())
