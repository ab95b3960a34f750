"""A gateway in a process of its own before an engine in a thread, which tells what reached it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kilocard.gateway.process import AtWork, gateway_over

MODEL = "m"
PATIENCE_S = 20.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
MODELS = json.dumps({"data": [{"id": MODEL, "object": "model", "max_model_len": 4096}]}).encode()


def eventually(holds: Callable[[], object]) -> bool:
    """Whether something comes to hold, however slow this machine is today."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@dataclass(slots=True)
class Heard:
    """One request at the engine."""

    head: bytes
    body: dict[str, Any]
    written: int = 0
    hung_up: bool = False
    is_over: bool = False


@dataclass(slots=True)
class Engine:
    """Streams `max_tokens` tokens; a body's own `ttft_s` and `tpot_s` say how fast. `heard` is in order."""

    port: int = 0
    heard: list[Heard] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                content = await reader.readexactly(int(length or 0))
                if head.startswith(b"POST") and not await self._complete(head, content, reader, writer):
                    break
                if head.startswith(b"GET"):
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(MODELS), MODELS))
        writer.close()

    async def _complete(
        self, head: bytes, content: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        body = json.loads(content)
        heard = Heard(head, body)
        if body.get("prompt") != "ping" and b"\r\nx-request-id:" in head:
            self.heard.append(heard)
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait([gone], timeout=body.get("ttft_s", 0.0))
        for place in range(int(body.get("max_tokens") or 1)):
            if gone.done():
                heard.hung_up = heard.is_over = True
                return False
            writer.write((HEAD if place == 0 else b"") + _chunk(_token(body.get("pad", 0))))
            heard.written += 1
            if tpot_s := body.get("tpot_s", 0.0):
                await asyncio.wait([gone], timeout=tpot_s)
        writer.write(_chunk(_token(0, "stop")) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        heard.is_over = True
        gone.cancel()
        await asyncio.wait([gone])
        return True


def _token(pad: int, reason: str | None = None) -> bytes:
    choice = {"index": 0, "text": " a" + "a" * pad, "finish_reason": reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


@contextmanager
def engine() -> Iterator[Engine]:
    """Run one in a thread, on a free port."""
    its, loop, ready = Engine(), asyncio.new_event_loop(), threading.Event()

    async def run() -> None:
        server = await asyncio.start_server(its.serve, "127.0.0.1", 0)
        its.port = server.sockets[0].getsockname()[1]
        ready.set()

    def work() -> None:
        loop.run_until_complete(run())
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
            with suppress(asyncio.CancelledError, OSError):
                loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield its
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@dataclass(frozen=True, slots=True)
class Scene:
    """The gateway, its engines, and what may be asked of both."""

    gateway: AtWork
    engines: tuple[Engine, ...]

    @property
    def engine(self) -> Engine:
        """The only one."""
        return self.engines[0]

    @property
    def port(self) -> int:
        """Where clients ask."""
        return int(self.gateway.url.rpartition(":")[2])

    @property
    def in_flight(self) -> int:
        """At all replicas, by the gateway's own count."""
        return sum(row["in_flight"] for row in self.gateway.replicas())

    def connect(self, port: int = 0) -> socket.socket:
        """A client's bare connection."""
        return socket.create_connection(("127.0.0.1", port or self.port), timeout=PATIENCE_S)

    def lines(self) -> list[dict[str, Any]]:
        """The access log so far."""
        text = (self.gateway.path.parent / "access.log").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def metric(self, name: str) -> float:
        """The sum over a metric's labels."""
        port = int(self.gateway.about["metrics"].rpartition(":")[2])
        with self.connect(port) as asked:
            asked.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            page = read_all(asked).decode()
        rows = [row for row in page.splitlines() if row.startswith("kilocard_gateway_" + name)]
        return sum(float(row.split()[-1]) for row in rows)


@contextmanager
def at_work(engines: int = 1, cap: int = 4, awaits_models: bool = True, **gateway: Any) -> Iterator[Scene]:
    """Run all of it; `gateway` is that section of the cluster's file."""
    with engine() as first:
        others = [engine() for _ in range(engines - 1)]
        running = [first, *(other.__enter__() for other in others)]
        try:
            replicas = [f"http://127.0.0.1:{its.port}" for its in running]
            pool = {"name": "p", "cap": cap, "replicas": replicas}
            cluster = {"name": "t", "model": MODEL, "pools": [pool], "gateway": gateway}
            with gateway_over(cluster, awaits_models=awaits_models) as process:
                yield Scene(process, tuple(running))
        finally:
            for other in others:
                other.__exit__(None, None, None)


def read_all(client: socket.socket) -> bytes:
    """All that comes until the end of the connection, be it a reset."""
    pieces = []
    with suppress(ConnectionError):
        while piece := client.recv(2**16):
            pieces.append(piece)
    return b"".join(pieces)


def completion(**body: Any) -> bytes:
    """A whole request for a streamed completion."""
    content = json.dumps({"model": MODEL, "prompt": "a", "stream": True, "max_tokens": 2, **body}).encode()
    return post(content)


def post(content: bytes, more: bytes = b"", path: bytes = b"/v1/completions") -> bytes:
    """A whole POST."""
    return b"POST %b HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n%b" % (
        path,
        more,
        len(content),
        content,
    )
