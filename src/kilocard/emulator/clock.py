"""Virtual time against the machine's clock, and a timer that keeps it to a fraction of a millisecond."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Callable
from time import perf_counter

from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS
from kilocard.errors import KilocardError

MOST_SPEED = 10_000.0
CLOCK_MONOTONIC, TFD_TIMER_ABSTIME, TFD_FLAGS = 1, 1, 0o2004000
"""From <time.h> and <sys/timerfd.h>: the clock of `perf_counter`, absolute times, and close-on-exec with
non-blocking."""


class Clock:
    """Virtual picoseconds that run `speed` times as fast as the machine's clock."""

    def __init__(self, speed: float = 1.0) -> None:
        if not 0 < speed <= MOST_SPEED:
            raise KilocardError(
                f"a speed of {speed:g} is not possible: use one above 0 and up to {MOST_SPEED:g}"
            )
        self.speed = speed
        self._origin = perf_counter()
        self._rate = speed * PICOSECONDS

    def now_ps(self) -> int:
        """Now."""
        return int((perf_counter() - self._origin) * self._rate)

    def at_ps(self, moment: float) -> int:
        """The virtual time of a moment on the `perf_counter` clock."""
        return int((moment - self._origin) * self._rate)

    def moment(self, at_ps: int) -> float:
        """When on the `perf_counter` clock a virtual time comes."""
        return self._origin + at_ps / self._rate

    def real_s(self, span_ps: int) -> float:
        """How long a span of virtual time lasts on the machine's clock."""
        return span_ps / self._rate


class Timer:
    """Calls back once it is the moment set last.

    An event loop's own timers count whole milliseconds, an eighth of a step; Linux has finer ones.
    """

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock, self._callback = clock, callback
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._descriptor = _new_descriptor()
        self._settings = ctypes.create_string_buffer(32)
        if self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._fire)

    def set(self, at_ps: int) -> None:
        """Instead of what was set before; NEVER_PS calls off."""
        moment = 0.0 if at_ps >= NEVER_PS else max(self._clock.moment(at_ps), 1e-6)
        if _libc is not None and self._descriptor is not None:
            seconds = int(moment)
            struct.pack_into("qqqq", self._settings, 0, 0, 0, seconds, int((moment - seconds) * 1e9))
            _libc.timerfd_settime(self._descriptor, TFD_TIMER_ABSTIME, self._settings, None)
            return
        if self._handle is not None:
            self._handle.cancel()
        if moment:
            self._handle = self._loop.call_later(max(0.0, moment - perf_counter()), self._callback)

    def close(self) -> None:
        """Call back no more."""
        if self._handle is not None:
            self._handle.cancel()
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _fire(self) -> None:
        assert self._descriptor is not None
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:  # it was set anew after it had fired
            return
        self._callback()


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _new_descriptor() -> int | None:
    if _libc is None:
        return None
    descriptor: int = _libc.timerfd_create(CLOCK_MONOTONIC, TFD_FLAGS)
    if descriptor < 0:
        raise KilocardError(
            "no timer can be had for another engine: raise `ulimit -n`, or use fewer replicas"
        )
    return descriptor
