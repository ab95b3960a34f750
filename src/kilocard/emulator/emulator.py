"""N emulated engines in one process, each on a port of its own."""

from __future__ import annotations

import asyncio
import errno
import reprlib
from collections.abc import Coroutine, Sequence
from time import perf_counter
from typing import Any, Self

from kilocard.emulator.asked import Door
from kilocard.emulator.clock import Clock
from kilocard.emulator.connection import Connection
from kilocard.emulator.engine import Engine
from kilocard.emulator.faults import Faults, PlannedFault, all_planned
from kilocard.emulator.limits import first_port, longest_sequence, served_name
from kilocard.emulator.prefix import PrefixNames
from kilocard.emulator.rows import RequestRows
from kilocard.emulator.site import EngineSite
from kilocard.emulator.tally import Tally
from kilocard.engine_model.calibration import Calibration, calibration_of_case
from kilocard.engine_model.state import Engines
from kilocard.errors import KilocardError
from kilocard.fleet.build import build
from kilocard.fleet.traffic import draw_traffic
from kilocard.specs import Case
from kilocard.specs.demand import NO_LOAD

HOST = "127.0.0.1"
BACKLOG = 4096
KEEP_ALIVE_S = 5.0
"""A connection that was answered and is idle is closed after so long, as vLLM's server does."""
SILENT_S, LOOK_S = 60.0, 1.0
"""One that owes the rest of a request, or its first, is closed after so long without a byte."""


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
        self.model = served_name(case, served_model_name)
        self.calibration = calibration or calibration_of_case(case)
        self.max_model_len = longest_sequence(case)
        self.clock = Clock(speed)
        self._rows = RequestRows(_idle_engines(case, self.calibration))
        self._names = PrefixNames(case.engine.block_size, self.count * self.kv_blocks)
        self._planned: list[PlannedFault] = all_planned(faults, self.count)
        self._first_port = first_port(port, self.count)
        self.sites: list[EngineSite] = []
        self._ports: list[int] = []
        self._listeners: dict[int, asyncio.Server] = {}
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()

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
            if fault.after_s:
                self._start(self._set_planned(fault))
            else:
                await self._set_planned(fault)
        self._start(self._close_idle())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        for site in self.sites:
            site.engine.close()
            for connection in list(site.connections):
                connection.close()
        await asyncio.sleep(0)

    async def set_faults(self, number: int, changes: dict[str, Any]) -> Faults:
        """Change what an engine does wrong, from now on, one change after another; where its port can't be
        opened, nothing changes."""
        if type(number) is not int or number not in range(self.count):
            raise KilocardError(f"there is no engine {reprlib.repr(number)}; they are 0 to {self.count - 1}")
        async with self._changing:
            engine = self.sites[number].engine
            before = engine.faults
            faults = before.changed(changes)
            if not faults.closes_port and number not in self._listeners:
                await self._listen(number)
            engine.set_faults(faults, "start_s" in changes or (before.crash and not faults.crash))
            if faults.closes_port and number in self._listeners:
                self._listeners.pop(number).close()
            if faults.crash and not before.crash:
                self._crash(self.sites[number])
            return faults

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
                f"no engine can listen on port {port} ({reason}): free it, or name another --port"
            ) from error
        self._listeners[number] = server
        if not known:
            self._ports.append(server.sockets[0].getsockname()[1])

    def _crash(self, site: EngineSite) -> None:
        for connection in list(site.connections):
            connection.reset()
        site.engine.clear()

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _set_planned(self, fault: PlannedFault) -> None:
        await asyncio.sleep(fault.after_s / self.clock.speed)
        for number in range(self.count) if fault.engine is None else (fault.engine,):
            await self.set_faults(number, fault.changes)

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now = perf_counter()
            for site in self.sites:
                for connection in list(site.connections):
                    patience_s = KEEP_ALIVE_S if connection.is_idle else SILENT_S
                    if not connection.is_answering and connection.last_used < now - patience_s:
                        connection.close()


def _idle_engines(case: Case, calibration: Calibration) -> Engines:
    if case.engine.pipeline_parallel_size > 1:
        raise KilocardError(
            f"pipeline_parallel_size {case.engine.pipeline_parallel_size}: a pipeline is simulated, not "
            "emulated; take 1, and cut with tensor_parallel_size"
        )
    idle = case.model_copy(update={"workload": NO_LOAD})
    return build(idle, draw_traffic(NO_LOAD, 0), calibration)[0]
