"""The load generator's own health: a client that is the bottleneck measures itself."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from kilocard.errors import KilocardError
from kilocard.processes import raise_file_limit

PERIOD_S = 0.01
LATE_S = 0.005
"""An open-loop request sent later than this after its time is late."""

OTHER_FILES = 64
MOST_CPU_CORES = 0.9
MOST_LAG_S = 0.02
MOST_LAG_OF_TTFT = 0.2
MOST_LATE = 0.01


@dataclass(slots=True)
class LoopHealth:
    """Over one stage: lag of the event loop (how late a timer fires) and CPU of its thread."""

    lags: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    wall_s: float = 0.0

    async def watch(self) -> None:
        """Run until cancelled."""
        cpu, started = thread_time(), perf_counter()
        try:
            while True:
                before = perf_counter()
                await asyncio.sleep(PERIOD_S)
                self.lags.append(max(0.0, perf_counter() - before - PERIOD_S))
        finally:
            self.cpu_s, self.wall_s = thread_time() - cpu, perf_counter() - started

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Watch for the length of a block."""
        watch = asyncio.create_task(self.watch())
        try:
            yield
        finally:
            watch.cancel()
            await asyncio.wait([watch])

    def report(self) -> dict[str, Any]:
        """Seconds of lag and cores of CPU."""
        lags = self.lags or [0.0]
        return {
            "loop_lag_mean_s": round(float(np.mean(lags)), 6),
            "loop_lag_p99_s": round(float(np.percentile(lags, 99)), 6),
            "cpu_cores": round(self.cpu_s / self.wall_s, 3) if self.wall_s else 0.0,
        }


def fault_of(report: dict[str, Any], median_ttft_s: float | None, late_share: float, unsent: int = 0) -> str:
    """Why a stage must not be believed, or nothing.

    Requests that this machine could not send are no fault of the engine's. The client was the bottleneck when
    its thread used 0.9 of a core, when one in a hundred timers fired later than 20 ms and a fifth of the
    median TTFT, or when one in a hundred open-loop requests left late.
    """
    if unsent:
        return f"this machine could not send {unsent} requests: raise `ulimit -n`, or use fewer connections"
    if report["cpu_cores"] > MOST_CPU_CORES:
        return f"the client used {report['cpu_cores']:.2f} of one core"
    if report["loop_lag_p99_s"] > max(MOST_LAG_S, MOST_LAG_OF_TTFT * (median_ttft_s or 0.0)):
        return f"the client's event loop lagged by {1000 * report['loop_lag_p99_s']:.0f} ms at p99"
    if late_share > MOST_LATE:
        return f"{late_share:.0%} of the requests left more than {1000 * LATE_S:.0f} ms late"
    return ""


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A collection in the middle of a run would stop every stream for its length."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def require_sockets(count: int) -> None:
    """Raise the limit of open files as far as it goes, and say when `count` connections need more."""
    needed = count + OTHER_FILES
    limit = raise_file_limit()
    if limit is not None and limit < needed:
        raise KilocardError(
            f"{count} connections need {needed} open files, the limit is {limit}: raise `ulimit -n`"
        )
