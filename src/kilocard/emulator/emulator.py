"""N emulated engines in one process, each on a port of its own."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Self

from kilocard import facts
from kilocard.emulator.asked import Door
from kilocard.emulator.clock import Clock
from kilocard.emulator.connection import Connection
from kilocard.emulator.engine import Engine
from kilocard.emulator.faults import Faults, PlannedFault, all_planned
from kilocard.emulator.prefix import PrefixNames
from kilocard.emulator.rows import RequestRows
from kilocard.emulator.site import EngineSite
from kilocard.emulator.tally import Tally
from kilocard.engine_model.calibration import Calibration, calibration_for
from kilocard.engine_model.state import Engines
from kilocard.errors import KilocardError
from kilocard.fleet.build import build, kv_blocks, state_blocks
from kilocard.fleet.traffic import draw_traffic
from kilocard.specs import Case, Demand

HOST = "127.0.0.1"
BACKLOG = 4096
KEEP_ALIVE_S = 5.0
"""An idle connection is closed after so long, as vLLM's server does."""

NO_LOAD = Demand(requests=1, rate_per_s=1, prompt_tokens=1, output_tokens=1)
"""A case wants a workload; here it comes over HTTP."""


class Emulator:
    """The engines of a case in real time (its workload is not looked at): an async context manager.

    `port` is that of the first engine, the others follow; 0 takes free ones. `speed` lets virtual time run so
    many times as fast. `faults` are what flags ask for (see `faults.planned`).
    """

    def __init__(
        self,
        case: Case,
        *,
        port: int = 0,
        speed: float = 1.0,
        served_model_name: str | None = None,
        faults: Sequence[str] = (),
        calibration: Calibration | None = None,
    ) -> None:
        self.case = case
        self.model = served_model_name or case.model
        self.calibration = calibration or calibration_for(str(case.card), case.calibration)
        self.max_model_len = longest_sequence(case)
        self.clock = Clock(speed)
        self._rows = RequestRows(_idle_engines(case, self.calibration))
        self._names = PrefixNames(case.engine.block_size, self.count * self.kv_blocks)
        self._planned: list[PlannedFault] = all_planned(faults, self.count)
        self._first_port = _checked_port(port, self.count)
        self.sites: list[EngineSite] = []
        self._ports: list[int] = []
        self._listeners: dict[int, asyncio.Server] = {}
        self._closing: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """Engines."""
        return len(self._rows.engines.replicas)

    @property
    def urls(self) -> list[str]:
        """One an engine."""
        return [f"http://{HOST}:{port}" for port in self._ports]

    @property
    def kv_blocks(self) -> int:
        """Of each engine."""
        return int(self._rows.engines.replicas.kv_blocks[0])

    @property
    def requests_held(self) -> int:
        """Rows of the request table in use, all engines together."""
        return self._rows.taken

    def about(self) -> dict[str, Any]:
        """What a command prints, and a notebook shows."""
        return {
            "kind": "emulated",
            "urls": self.urls,
            "model": self.model,
            "card": str(self.case.card),
            "calibration": self.calibration.name,
            "max_model_len": self.max_model_len,
            "kv_blocks": self.kv_blocks,
            "speed": self.clock.speed,
        }

    async def __aenter__(self) -> Self:
        try:
            for number in range(self.count):
                self.sites.append(self._site(number))
                await self._listen(number)
        except BaseException:
            await self.__aexit__()
            raise
        for fault in self._planned:
            self._plan_fault(fault)
        self._closing = asyncio.create_task(self._close_idle())
        return self

    async def __aexit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        for site in self.sites:
            site.engine.close()
            for connection in list(site.connections):
                connection.close()
        if self._closing:
            self._closing.cancel()
        await asyncio.sleep(0)

    def set_faults(self, number: int, changes: dict[str, Any]) -> None:
        """Change what an engine does wrong, from now on."""
        if not (isinstance(number, int) and 0 <= number < self.count):
            raise KilocardError(f"there is no engine {number!r}; they are 0 to {self.count - 1}")
        site = self.sites[number]
        before = site.engine.faults
        faults = before.changed(changes)
        site.engine.set_faults(faults, "start_s" in changes or (before.crash and not faults.crash))
        if faults.crash and not before.crash:
            for connection in list(site.connections):
                connection.reset()
            site.engine.clear()
        self._open_or_close(number, faults)

    def _site(self, number: int) -> EngineSite:
        tally = Tally(self.max_model_len)
        overhead_s = self.calibration.coefficients.request_s
        engine = Engine(number, self._rows, self._names, self.clock, overhead_s, tally)
        door = Door(self.model, self.max_model_len)
        return EngineSite(engine, door, self._rows, str(self.case.card), self.set_faults)

    async def _listen(self, number: int) -> None:
        known = number < len(self._ports)
        port = self._ports[number] if known else self._first_port and self._first_port + number
        site = self.sites[number]
        try:
            server = await asyncio.get_running_loop().create_server(
                lambda: Connection(site), HOST, port, backlog=BACKLOG
            )
        except OSError as error:
            reason = "it is taken" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
            raise KilocardError(
                f"no engine can listen on port {port} ({reason}): name another --port"
            ) from error
        self._listeners[number] = server
        if not known:
            self._ports.append(server.sockets[0].getsockname()[1])

    def _open_or_close(self, number: int, faults: Faults) -> None:
        if (faults.crash or faults.refuse) and number in self._listeners:
            self._listeners.pop(number).close()
        elif not (faults.crash or faults.refuse) and number not in self._listeners:
            self._reopening = asyncio.ensure_future(self._listen(number))

    def _plan_fault(self, fault: PlannedFault) -> None:
        for number in range(self.count) if fault.engine is None else (fault.engine,):
            if fault.after_s:
                delay_s = fault.after_s / self.clock.speed
                asyncio.get_running_loop().call_later(delay_s, self.set_faults, number, fault.changes)
            else:
                self.set_faults(number, fault.changes)

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(KEEP_ALIVE_S / 5)
            late = perf_counter() - KEEP_ALIVE_S
            for site in self.sites:
                for connection in [one for one in site.connections if one.is_idle and one.last_used < late]:
                    connection.close()


def longest_sequence(case: Case) -> int:
    """Tokens of the longest sequence: as asked, or the model's context as far as the KV cache holds it."""
    room = (kv_blocks(case) - state_blocks(case)) * case.engine.block_size
    asked = case.engine.max_model_len
    if asked is not None and asked > room:
        raise KilocardError(
            f"max_model_len {asked} is over the {room} tokens that the KV cache holds: lower it, or use more "
            "cards"
        )
    context = facts.model(case.model).max_context_tokens or room
    return asked or min(context, room)


def _idle_engines(case: Case, calibration: Calibration) -> Engines:
    idle = case.model_copy(update={"workload": NO_LOAD})
    return build(idle, draw_traffic(NO_LOAD, 0), calibration)[0]


def _checked_port(port: int, count: int) -> int:
    if port and not 1 <= port <= 65_536 - count:
        raise KilocardError(
            f"{count} engines from port {port} on are not possible: use a --port up to {65_536 - count}, or 0"
        )
    return port
