"""Several gateway processes on one machine: started, watched, told to reload or to end."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kilocard.errors import KilocardError
from kilocard.gateway.place import Place
from kilocard.gateway.process import spawned
from kilocard.gateway.server import cannot_listen

LOOK_S = 0.2
FIRST_BACK_OFF_S = 0.5
MOST_BACK_OFF_S = 30.0
CALM_S = 30.0


class Worker:
    """One process, started anew when it dies, later each time it dies soon."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._back_off_s, self._began_s, self._due_s = FIRST_BACK_OFF_S, 0.0, 0.0
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> dict[str, Any]:
        """Start it, and wait until it listens; raises KilocardError with what it says."""
        self._began_s = time.monotonic()
        self.process, told = spawned(self.place)
        return told

    def look(self, now: float) -> None:
        """Start it anew if it has died."""
        if self.process is None or self.process.poll() is None:
            return
        if not self._due_s:
            soon = now - self._began_s < CALM_S
            self._back_off_s = min(MOST_BACK_OFF_S, 2 * self._back_off_s) if soon else FIRST_BACK_OFF_S
            self._due_s = now + self._back_off_s
            print(f"gateway {self.place.gateway} died; anew in {self._back_off_s:g} s", file=sys.stderr)
        elif now >= self._due_s:
            self._due_s = 0.0
            try:
                self.start()
            except KilocardError as error:
                print(f"gateway {self.place.gateway}: {error}", file=sys.stderr)

    def signal(self, number: int) -> None:
        """Pass a signal on."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


def run_workers(places: list[Place], announce: Callable[[list[dict[str, Any]]], None]) -> None:
    """Hold the port, start the workers, and pass signals on until one ends them."""
    held = reserve_port(places[0].host, places[0].port)
    port = int(held.getsockname()[1])
    workers = [Worker(replace(place, port=port, shares_port=True)) for place in places]
    ends: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda given, _: ends.append(given))
    for number in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda given, _: _pass_on(workers, given))
    try:
        announce([worker.start() for worker in workers])
        while not ends:
            time.sleep(LOOK_S)
            for worker in workers:
                worker.look(time.monotonic())
    finally:
        for worker in workers:
            worker.signal(signal.SIGTERM)
        for worker in workers:
            if worker.process is not None:
                worker.process.wait()
        held.close()


def reserve_port(host: str, port: int) -> socket.socket:
    """A socket that holds a port for several processes that share it; it takes no connections itself."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    held = socket.socket(family)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        with socket.socket(family) as alone:  # other sharers, whose clients it would take, are in its way
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind((host, port))
        held.bind((host, port))
    except OSError as error:
        held.close()
        raise cannot_listen(host, port, error) from error
    return held


def _pass_on(workers: list[Worker], number: int) -> None:
    for worker in workers:
        worker.signal(number)
