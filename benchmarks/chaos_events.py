"""What befalls engines and gateway while they are asked: in a fixed order, on engines drawn by a seed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter
from typing import Any

import yaml

from kilocard.emulator import Emulated

PAUSE_S = 0.7
MOST_AT_ONCE = 3
"""Engines that something befalls; the others carry the load."""
RECOVERY_S = 2.0
DRAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Drained:
    """A replica that was told to take nothing new: when, how many it held, and when it held none."""

    replica: str
    by: str
    began: float
    held: int
    empty: float | None


@dataclass
class Town:
    """The engines, the gateway before them, and its cluster file."""

    engines: Emulated
    gateway_pid: int
    admin_port: int
    path: Path
    cluster: dict[str, Any]
    gone: set[str] = field(default_factory=set)
    """Replicas that the file does not name now."""

    @property
    def replicas(self) -> list[str]:
        """As the gateway calls them."""
        return [url.removeprefix("http://") for url in self.engines.urls]

    def order(self, path: str, **what: Any) -> Any:
        """Ask the gateway's admin."""
        connection = HTTPConnection("127.0.0.1", self.admin_port, timeout=10)
        try:
            connection.request("POST", path, json.dumps(what), {"content-type": "application/json"})
            return json.load(connection.getresponse())
        finally:
            connection.close()

    def listed(self) -> dict[str, Any]:
        """All replicas as the gateway sees them."""
        connection = HTTPConnection("127.0.0.1", self.admin_port, timeout=10)
        try:
            connection.request("GET", "/replicas")
            return dict(json.load(connection.getresponse()))
        finally:
            connection.close()

    def held_by(self, replica: str) -> int | None:
        """In flight at a replica; None where it is no longer listed."""
        rows = [row for row in self.listed()["replicas"] if row["id"] == replica]
        return int(rows[0]["in_flight"]) if rows else None

    def reload(self, weight: float = 1.0) -> None:
        """Write the cluster file, with all that is not gone, and tell the gateway by SIGHUP."""
        rows = [
            {"url": url, "weight": weight if number == 0 else 1.0}
            for number, url in enumerate(self.engines.urls)
            if url.removeprefix("http://") not in self.gone
        ]
        self.cluster["pools"][0]["replicas"] = rows
        self.path.write_text(yaml.safe_dump(self.cluster), encoding="utf-8")
        os.kill(self.gateway_pid, signal.SIGHUP)


@dataclass
class Chaos:
    """Brings about one thing after another until it is told to stop."""

    town: Town
    seed: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    drained: list[Drained] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    _busy: set[int] = field(default_factory=set)

    async def run(self, stop: asyncio.Event) -> None:
        """All that has begun is brought to its end: the engines are sound when this returns."""
        chance, under_way = random.Random(self.seed), set[asyncio.Task[None]]()
        deeds = self._deeds()
        turn = 0
        while not stop.is_set():
            free = [number for number in range(len(self.town.replicas)) if number not in self._busy]
            if len(self._busy) < MOST_AT_ONCE:
                name, deed = deeds[turn % len(deeds)]
                turn += 1
                task = asyncio.create_task(self._do(name, deed, chance.choice(free), chance))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
            await asyncio.sleep(PAUSE_S)
        await asyncio.gather(*under_way)

    def _deeds(self) -> list[tuple[str, Callable[[int, random.Random], Awaitable[None]]]]:
        return [
            ("killed and restarted", self._kill),
            ("slowed", self._slow),
            ("drained", self._drain),
            ("hung", self._hang),
            ("reloaded", self._reload),
            ("failing", self._fail),
            ("removed and added by a reload", self._remove),
            ("refusing connections", self._refuse),
        ]

    async def _do(
        self,
        name: str,
        deed: Callable[[int, random.Random], Awaitable[None]],
        engine: int,
        chance: random.Random,
    ) -> None:
        self._busy.add(engine)
        self.happened[name] += 1
        try:
            await deed(engine, chance)
        except Exception as error:  # of one deed; the others go on, and it is told at the end
            self.failed.append(f"{name}, engine {engine}: {type(error).__name__}: {error}")
        finally:
            self._busy.discard(engine)

    async def _fault(self, engine: int, **changes: Any) -> None:
        through = next(number for number in range(len(self.town.replicas)) if number not in self._busy)
        await asyncio.to_thread(self.town.engines.fault, engine, through=through, **changes)

    async def _kill(self, engine: int, chance: random.Random) -> None:
        await self._fault(engine, crash=True)
        await asyncio.sleep(chance.uniform(0.5, 3))
        await self._fault(engine, crash=False, start_s=1.0)
        await asyncio.sleep(1.0 + RECOVERY_S)

    async def _slow(self, engine: int, chance: random.Random) -> None:
        await self._fault(engine, slow=chance.choice((4.0, 10.0)))
        await asyncio.sleep(4)
        await self._fault(engine, slow=1.0)
        await asyncio.sleep(RECOVERY_S)

    async def _hang(self, engine: int, chance: random.Random) -> None:
        await self._fault(engine, hang=True)
        await asyncio.sleep(chance.uniform(1, 8))
        await self._fault(engine, hang=False)
        await asyncio.sleep(RECOVERY_S)

    async def _fail(self, engine: int, chance: random.Random) -> None:
        await self._fault(engine, http_500=0.2, error_event=0.2)
        await asyncio.sleep(3)
        await self._fault(engine, http_500=0.0, error_event=0.0)

    async def _refuse(self, engine: int, chance: random.Random) -> None:
        await self._fault(engine, refuse=True)
        await asyncio.sleep(2)
        await self._fault(engine, refuse=False)
        await asyncio.sleep(RECOVERY_S)

    async def _drain(self, engine: int, chance: random.Random) -> None:
        replica = self.town.replicas[engine]
        began = perf_counter()
        told = await asyncio.to_thread(self.town.order, "/drain", id=replica)
        await self._until_empty(replica, "drain", began, int(told["in_flight"]))
        await asyncio.to_thread(self.town.order, "/resume", id=replica)

    async def _remove(self, engine: int, chance: random.Random) -> None:
        replica = self.town.replicas[engine]
        held = await asyncio.to_thread(self.town.held_by, replica)
        began = perf_counter()
        self.town.gone.add(replica)
        self.town.reload()
        await self._until_empty(replica, "reload", began, held or 0)
        self.town.gone.discard(replica)
        self.town.reload()
        await asyncio.sleep(RECOVERY_S)

    async def _reload(self, engine: int, chance: random.Random) -> None:
        self.town.reload(weight=chance.choice((0.5, 1.0)))

    async def _until_empty(self, replica: str, by: str, began: float, held: int) -> None:
        empty = None
        while perf_counter() - began < DRAIN_S:
            await asyncio.sleep(0.1)
            if not await asyncio.to_thread(self.town.held_by, replica):
                empty = perf_counter()
                break
        self.drained.append(Drained(replica, by, began, held, empty))
