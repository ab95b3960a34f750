"""How full each engine's KV cache is, by its own /metrics: no request waits for it."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from time import perf_counter

from kilocard.gateway.member import Member
from kilocard.gateway.placing import Placing
from kilocard.gateway.question import ask
from kilocard.gateway.station import Station
from kilocard.routing.health import Ending
from kilocard.routing.probes import turn_delay_s

PATH = b"/metrics"
TIMEOUT_S = 5.0
MOST_PER_S = 100.0
"""Pages that one gateway reads a second; with more replicas each is read less often."""
OLD_PERIODS, LEAST_OLD_S = 3.0, 2.0
"""After so many without an answer, and so many seconds, nothing is known."""
_USED = re.compile(rb"\nvllm[:_](kv|gpu)_cache_usage_perc(?:\{.*\})?[ \t]+(\S+)")
"""vLLM's gauge by its name of today, or of before 2025. To parse a whole page would take 400 times as long,
and streams stand still meanwhile."""


@dataclass(slots=True)
class Scraping:
    """Of gateway number `gateway` of `gateways`, every `every_s`; 0: nothing is read."""

    placing: Placing
    gateway: int = 0
    gateways: int = 1
    every_s: float = 0.0
    _readers: dict[Member, asyncio.Task[None]] = field(default_factory=dict)

    def set_interval(self, every_s: float) -> None:
        """From now on."""
        if every_s != self.every_s:
            self.close()
            self.every_s = every_s

    def tick(self, now_s: float) -> None:
        """Each member has its reader; what is too old is known no longer."""
        members = [(station, it) for station in self.placing.stations for it in station.pool.members]
        for gone in self._readers.keys() - {member for _, member in members}:
            self._readers.pop(gone).cancel()
        period_s = self._period_s(len(members))
        old_s = max(OLD_PERIODS * period_s, LEAST_OLD_S)
        for number, (station, member) in enumerate(members):
            if self.every_s and (member not in self._readers or self._readers[member].done()):
                turn_s = self._turn_s(period_s, number, len(members))
                self._readers[member] = asyncio.create_task(self._read(station, member, turn_s))
            if member.kv_seen_s and (not self.every_s or now_s > member.kv_seen_s + old_s):
                _note(station, member, None, now_s)

    def close(self) -> None:
        """No more of it."""
        for reader in self._readers.values():
            reader.cancel()
        self._readers.clear()

    def _period_s(self, members: int) -> float:
        return max(self.every_s, members / MOST_PER_S)

    def _turn_s(self, period_s: float, number: int, members: int) -> float:
        return turn_delay_s(
            period_s,
            replica=number,
            replicas=members,
            gateway=self.gateway,
            gateways=self.gateways,
            shared_s=time.time(),
        )

    async def _read(self, station: Station, member: Member, turn_s: float) -> None:
        """Once, at its turn; the tick after it sees to the next."""
        await asyncio.sleep(turn_s)
        heard = await ask(member, member.opening(PATH, b"GET") + b"\r\n", TIMEOUT_S)
        used = kv_used(heard.content) if heard.ending is Ending.OK else None
        if used is not None and member in station.pool.members:
            _note(station, member, used, perf_counter())


def kv_used(page: bytes) -> float | None:
    """Used share of the KV cache, 0 to 1, of several engines (data parallel) the mean; None where a page does
    not tell, or tells what cannot be."""
    found = _USED.findall(b"\n" + page)
    newest = b"kv" if any(name == b"kv" for name, _ in found) else b"gpu"
    try:
        used = [float(value) for name, value in found if name == newest]
    except ValueError:
        return None
    return sum(used) / len(used) if used and all(0 <= it <= 1 for it in used) else None


def _note(station: Station, member: Member, used: float | None, now_s: float) -> None:
    """What is not known counts as free."""
    station.pool.replicas.kv_free[member.row] = 1.0 - (used or 0.0)
    member.kv_seen_s = 0.0 if used is None else now_s
