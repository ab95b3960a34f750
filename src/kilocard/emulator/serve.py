"""Hold emulated engines until a signal comes."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable

import uvloop

from kilocard.emulator.emulator import Emulator
from kilocard.load.health import require_sockets


def serve(
    make: Callable[[], Emulator], announce: Callable[[Emulator], None], ends_with_stdin: bool = False
) -> None:
    """Run until SIGTERM or SIGINT (or until whoever holds stdin's other end is gone): streams end with an
    error event, ports close."""
    require_sockets(1)
    uvloop.run(_serve(make, announce, ends_with_stdin))


async def _serve(
    make: Callable[[], Emulator], announce: Callable[[Emulator], None], ends_with_stdin: bool
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if ends_with_stdin:
        loop.add_reader(sys.stdin.fileno(), stop.set)
    async with make() as emulator:
        announce(emulator)
        gc.collect()
        gc.freeze()
        await stop.wait()
