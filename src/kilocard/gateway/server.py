"""One gateway process: its ports, its clock, and the signals that change or end it."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from time import perf_counter

import uvloop

from kilocard.errors import KilocardError
from kilocard.gateway.admin import AdminDoor
from kilocard.gateway.behind import House
from kilocard.gateway.books import Books
from kilocard.gateway.discovery import Discovery
from kilocard.gateway.door import MOST_CONNECTIONS, MetricsDoor
from kilocard.gateway.doorman import Doorman, ring_of
from kilocard.gateway.front import Front
from kilocard.gateway.guests import Guests, look_at
from kilocard.gateway.house import Gateway
from kilocard.gateway.keys import read_key
from kilocard.gateway.learning import learn_models
from kilocard.gateway.log import AccessLog
from kilocard.gateway.pages import use_huge_pages
from kilocard.gateway.place import Place as Place
from kilocard.gateway.placing import Placing
from kilocard.gateway.registry import Registry
from kilocard.gateway.rules import follow
from kilocard.gateway.scraping import Scraping
from kilocard.gateway.telemetry import Telemetry
from kilocard.gateway.turns import in_turns
from kilocard.gateway.warden import Warden
from kilocard.processes import raise_file_limit
from kilocard.specs.cluster import read_cluster
from kilocard.specs.cluster.parts import joined

TICK_S = 0.5
HOUSE_TICKS = 2
"""So many ticks are a second: for what need not be looked at more often."""
SOON_S = 0.1
BACKLOG = 4096
GARBAGE_OBJECTS = 10_000
"""That point at each other and may be garbage; to look through so many takes about a millisecond."""


class Process:
    """Everything that one gateway process holds."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.spec = read_cluster(place.path)
        gateway = self.spec.gateway
        key = read_key(gateway.engine_key) if gateway.engine_key else ""
        self.placing = Placing()
        self.registry = Registry(self.placing, place.gateway, place.gateways, key)
        self.registry.adopt(self.spec, place.seed)
        self.doorman = Doorman(gateway, place.gateways)
        self.log = AccessLog(gateway.access_log.path)
        telemetry = Telemetry()
        self.warden = Warden(self.placing, telemetry, gateway=place.gateway, gateways=place.gateways)
        self.scraping = Scraping(self.placing, place.gateway, place.gateways)
        self.house = Gateway(gateway, self.placing, self.doorman, self.warden, Books(telemetry, self.log))
        follow(self.spec, self.warden, self.scraping, place.gateways)
        self.discovery = Discovery(self.registry, self.log)
        self.discovery.follow(self.spec)
        self.door_guests = Guests(MOST_CONNECTIONS)
        self._servers: list[asyncio.Server] = []
        self._public: asyncio.Server | None = None
        self._ticks, self._told = 0, ""
        self._learning: asyncio.Task[None] | None = None

    async def run(self, announce: Callable[[Process], None]) -> None:
        """Serve until a signal comes, then until nothing is in flight."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        loop.add_signal_handler(signal.SIGUSR1, self.log.reopen)
        await self._listen()
        clock = loop.create_task(self._run_clock())
        try:
            self.warden.tick(perf_counter())
            self.discovery.tick(perf_counter())
            self._learning = loop.create_task(learn_models(self.house, self.placing))
            gc.collect()
            gc.freeze()
            use_huge_pages()
            gc.set_threshold(GARBAGE_OBJECTS)
            announce(self)
            await stop.wait()
            await self._drain()
        finally:
            clock.cancel()
            self._close()

    def reload(self) -> str:
        """Read the cluster file again; one that cannot be used changes nothing. Returns the fault, if any."""
        try:
            spec = read_cluster(self.place.path)
            ring = ring_of(spec.gateway)
            self.registry.adopt(spec, self.place.seed)
        except KilocardError as error:
            self.log.note({"reload": "failed", "error": str(error)})
            return str(error)
        self.spec = spec
        self.doorman.adopt(spec.gateway, ring)
        self.house.adopt(spec.gateway)
        follow(spec, self.warden, self.scraping, self.place.gateways)
        self.discovery.follow(spec)
        self.tick_now()
        self.log.note({"reload": "done"})
        return ""

    def about(self) -> dict[str, object]:
        """Where it listens, and for whom."""
        gateway, number = self.spec.gateway, self.place.offset
        return {
            "url": f"http://{joined(self.place.host, self.port)}",
            "admin": f"http://{joined(gateway.admin.host, gateway.admin.port + number)}",
            "metrics": f"http://{joined(gateway.metrics.host, gateway.metrics.port + number)}",
            "models": list(self.spec.models),
            "replicas": sum(len(station.pool.members) for station in self.placing.stations),
            "policy": gateway.policy,
            "gateway": self.place.gateway,
            "gateways": self.place.gateways,
        }

    def tick_now(self) -> None:
        """What was ordered holds at once."""
        now = perf_counter()
        self.warden.tick(now)
        self.warden.apply(now)

    async def _listen(self) -> None:
        gateway, number = self.spec.gateway, self.place.offset
        self._public = await self._serve(self.house, self.place.host, self.place.port, self.place.shares_port)
        admin = AdminDoor(self)
        await self._serve(admin, gateway.admin.host, gateway.admin.port + number)
        await self._serve(MetricsDoor(self), gateway.metrics.host, gateway.metrics.port + number)

    async def _serve(self, house: House, host: str, port: int, shared: bool = False) -> asyncio.Server:
        try:
            server = await asyncio.get_running_loop().create_server(
                lambda: Front(house), host, port, backlog=BACKLOG, reuse_port=shared or None
            )
        except OSError as error:
            raise cannot_listen(host, port, error) from error
        self._servers.append(server)
        return server

    @property
    def port(self) -> int:
        """Where clients ask."""
        assert self._public is not None
        return int(self._public.sockets[0].getsockname()[1])

    async def _run_clock(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self._tick(perf_counter())
            except Exception as error:  # the clock must go on, or nothing would ever time out
                if repr(error) != self._told:
                    about = {"message": "a tick failed; this is told once", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(about)
                self._told = repr(error)

    async def _tick(self, now: float) -> None:
        house = self.house
        self.warden.tick(now)
        async for call in in_turns(house.calls):
            limits = self.spec.gateway.timeouts
            call.tick(perf_counter(), limits, limits.between_chunks_s)
        self.house.books.settle()
        self.log.flush()
        self._ticks += 1
        if self._ticks % HOUSE_TICKS:
            return
        for guests in (house.guests, self.door_guests):
            async for guest in in_turns(guests):
                if guest in guests:
                    look_at(guest, perf_counter(), self.spec.gateway.limits, house.is_draining)
        self.scraping.tick(perf_counter())
        self.discovery.tick(perf_counter())
        self.registry.tick(perf_counter(), house.is_draining)

    async def _drain(self) -> None:
        """Nothing new; what is under way is finished."""
        self.house.is_draining = True
        until = perf_counter() + self.place.drain_s
        if self._public is not None:
            self._public.close()
        while self.house.calls and perf_counter() < until:
            await asyncio.sleep(SOON_S / 2)
        for call in list(self.house.calls):
            call.give_up()
        await asyncio.sleep(SOON_S)

    def _close(self) -> None:
        for server in self._servers:
            server.close()
        for guests in (self.house.guests, self.door_guests):
            guests.close()
        self.warden.close()
        self.scraping.close()
        self.discovery.close()
        if self._learning is not None:
            self._learning.cancel()
        for station in self.placing.stations:
            for member in station.pool.members:
                member.lines.close()
        self.house.books.settle()
        self.log.close()


def serve(place: Place, announce: Callable[[Process], None]) -> None:
    """Run one gateway process until it is told to end."""
    raise_file_limit()
    uvloop.run(Process(place).run(announce))


def cannot_listen(host: str, port: int, error: OSError) -> KilocardError:
    """Somebody else is there, or the address is not this machine's."""
    reason = error.strerror or str(error)
    return KilocardError(f"cannot listen on {joined(host, port)} ({reason}): free it, or name another port")
