"""Replicas behind a name: asked for its addresses again and again, as pods come and go."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter

from kilocard.gateway.log import AccessLog
from kilocard.gateway.registry import Registry
from kilocard.specs.cluster import ClusterSpec, Pool, Replica
from kilocard.specs.cluster.parts import joined

TIMEOUT_S = 5.0
MOST_FOUND = 4096
Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""From a name to its addresses; OSError where it cannot be asked."""


class Discovery:
    """Of one gateway. A name that cannot be asked, or has no address, changes nothing: engines that are gone
    are found dead by their probes, and all at once is what a broken name server would look like."""

    def __init__(self, registry: Registry, log: AccessLog, resolve: Resolve | None = None) -> None:
        self._registry, self._log, self._resolve = registry, log, resolve or addresses
        self._spec: ClusterSpec | None = None
        self._due_s: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._told: dict[str, str] = {}

    def follow(self, spec: ClusterSpec) -> None:
        """From now on; names that are no longer in the file are not asked."""
        self._spec = spec
        self._due_s = {pool.name: 0.0 for pool in spec.pools if pool.discovery}

    def tick(self, now_s: float) -> None:
        """Ask whoever is due and is not being asked."""
        for pool in self._spec.pools if self._spec else ():
            if pool.discovery and self._due_s[pool.name] <= now_s and pool.name not in self._asking:
                self._due_s[pool.name] = now_s + pool.discovery.every_s
                self._asking[pool.name] = asyncio.get_running_loop().create_task(self._ask(pool))

    def close(self) -> None:
        """Ask no more."""
        for task in self._asking.values():
            task.cancel()

    async def _ask(self, pool: Pool) -> None:
        assert pool.discovery
        try:
            found = await asyncio.wait_for(self._resolve(pool.discovery.dns), TIMEOUT_S)
            if found:
                self._take(pool, found)
            else:
                self._tell(pool, "the name has no address")
        except (OSError, TimeoutError, UnicodeError) as error:
            self._tell(pool, str(error) or type(error).__name__)
        finally:
            self._asking.pop(pool.name, None)

    def _take(self, pool: Pool, found: Sequence[str]) -> None:
        """The file may have been read again meanwhile."""
        spec, asked = self._spec, pool.discovery
        now = next((it for it in spec.pools if it.name == pool.name), None) if spec else None
        if spec is None or now is None or asked is None or now.discovery != asked:
            return
        self._told.pop(pool.name, None)
        each = sorted({address.partition("%")[0] for address in found})  # whatever order the server has today
        replicas = [
            Replica(url=f"http://{joined(address, asked.port)}", version=now.version)
            for address in each[:MOST_FOUND]
        ]
        self._registry.found_behind(now, replicas, spec.gateway.timeouts.connect_s)

    def _tell(self, pool: Pool, reason: str) -> None:
        """Once for each reason."""
        if self._told.get(pool.name) != reason:
            self._told[pool.name] = reason
            self._log.note({"discovery": pool.name, "at_s": perf_counter(), "error": reason})


async def addresses(name: str) -> list[str]:
    """Those of a name, as the system resolves it."""
    rows = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(row[4][0]) for row in rows]
