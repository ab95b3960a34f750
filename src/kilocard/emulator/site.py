"""What one port of the emulator serves: the paths of vLLM's server, and the engine's faults."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from kilocard import __version__
from kilocard.emulator import metrics
from kilocard.emulator.asked import Asked, Door
from kilocard.emulator.connection import Connection
from kilocard.emulator.engine import Engine
from kilocard.emulator.errors import ENGINE_DEAD, ApiError, RouteError, invalid
from kilocard.emulator.faults import Faults
from kilocard.emulator.frames import Frames
from kilocard.emulator.message import Message
from kilocard.emulator.rows import RequestRows
from kilocard.emulator.stream import Stream
from kilocard.errors import KilocardError

OWNER = "kilocard-emulator"
"""Named as the owner of the model: a load generator tells by it that nothing here is measured."""

FAULT_FORM = 'a fault is a JSON object, like {"slow": 3} or {"engine": 1, "crash": true}'

Handler = Callable[[Connection, Message], Stream | None]


@dataclass(eq=False)
class EngineSite:
    """One engine's port."""

    engine: Engine
    door: Door
    rows: RequestRows
    card: str
    set_faults: Callable[[int, dict[str, Any]], Awaitable[Faults]]
    """Of any engine of the process, by its number."""
    connections: set[Connection] = field(default_factory=set)
    _changes: set[asyncio.Task[None]] = field(default_factory=set)
    _served: int = 0

    def __post_init__(self) -> None:
        self._created = int(time.time())
        self._routes: dict[str, dict[str, Handler]] = {
            "/v1/completions": {"POST": self._completions},
            "/v1/chat/completions": {"POST": self._chat},
            "/v1/models": {"GET": self._models},
            "/version": {"GET": self._version},
            "/health": {"GET": self._health},
            "/ping": {"GET": self._health, "POST": self._health},
            "/metrics": {"GET": self._metrics},
            "/emulator/fault": {"GET": self._show_faults, "POST": self._fault},
        }

    def serve(self, line: Connection, message: Message) -> Stream | None:
        """Answer at once, or begin a stream."""
        methods = self._routes.get(message.path)
        if methods is None:
            raise RouteError(404, "Not Found")
        handler = methods.get(message.method)
        if handler is None:
            raise RouteError(405, "Method Not Allowed", headers=f"allow: {', '.join(methods)}\r\n")
        return handler(line, message)

    def hang_up(self, stream: Stream) -> None:
        """The client of a stream is gone."""
        if stream.open:
            self.engine.cancel(stream)

    def _completions(self, line: Connection, message: Message) -> Stream:
        return self._begin(line, message, self.door.completion)

    def _chat(self, line: Connection, message: Message) -> Stream:
        return self._begin(line, message, self.door.chat)

    def _begin(self, line: Connection, message: Message, read: Callable[[bytes], Asked]) -> Stream:
        self._require_ready()
        if message.content_type != "application/json":
            raise invalid("1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed")
        asked = read(b"".join(message.body))
        if self.engine.refuses():
            raise ApiError(500, ENGINE_DEAD["error"]["message"], "InternalServerError")
        self._served += 1
        number = message.request_id or f"{self.engine.number:x}-{self._created:x}-{self._served:08x}"
        frames = Frames(asked, number, int(time.time()))
        stream = Stream(self.engine, line, asked, self.engine.path_of(asked), frames)
        if asked.stream:
            line.begin_stream()
        self.engine.submit(stream, message.read_at)
        return stream

    def _require_ready(self) -> None:
        if not self.engine.is_ready:
            raise ApiError(503, "The engine is still starting", "ServiceUnavailableError")

    def _models(self, line: Connection, _: Message) -> None:
        self._require_ready()
        model = {"id": self.door.model, "object": "model", "created": self._created, "owned_by": OWNER}
        about = {"root": self.door.model, "parent": None, "max_model_len": self.door.max_model_len}
        listed = {**model, **about, "permission": [], "card": self.card}
        line.respond(json.dumps({"object": "list", "data": [listed]}).encode())

    def _version(self, line: Connection, _: Message) -> None:
        speed = self.engine.clock.speed
        version = __version__ if speed == 1 else f"{__version__} at {speed:g} x speed"
        line.respond(json.dumps({"version": version, "engine": OWNER}).encode())

    def _health(self, line: Connection, _: Message) -> None:
        line.respond(b"", 200 if self.engine.is_ready else 503)

    def _metrics(self, line: Connection, _: Message) -> None:
        desk, number = self.rows.desk, self.engine.number
        page = metrics.page(
            self.engine, self.door.model, desk.gaps[number].tolist(), desk.step_tokens[number].tolist()
        )
        line.respond(page.encode(), kind=metrics.CONTENT_TYPE)

    def _show_faults(self, line: Connection, _: Message) -> None:
        line.respond(_shown(self.engine.number, self.engine.faults))

    def _fault(self, line: Connection, message: Message) -> None:
        """`{"slow": 3}`, for this port's engine, or with `"engine": 2` for another."""
        try:
            changes = json.loads(b"".join(message.body))
        except (ValueError, RecursionError):
            changes = None
        if not isinstance(changes, dict):
            raise ApiError(400, FAULT_FORM)
        number = changes.pop("engine", self.engine.number)
        change = asyncio.create_task(self._change(line, number, changes))
        self._changes.add(change)
        change.add_done_callback(self._changes.discard)

    async def _change(self, line: Connection, number: int, changes: dict[str, Any]) -> None:
        try:
            faults = await self.set_faults(number, changes)
        except KilocardError as error:
            line.respond(ApiError(400, str(error)).body, 400)
        else:
            line.respond(_shown(number, faults))


def _shown(number: int, faults: Faults) -> bytes:
    return json.dumps({"engine": number, **faults.model_dump()}).encode()
