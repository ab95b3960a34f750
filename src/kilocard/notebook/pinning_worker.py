"""One process beside others: it reads a matrix as decode reads weights, or only keeps a core busy.

Its one argument is a JSON object (`Orders`). It says `ready`, waits for a line, and writes one of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from kilocard.processes import stat_fields

MATRIX_SIDE = (8192, 4096)
"""In float32: 134 MB, half of the embedded model's weights in BF16."""
SPIN_S = 1e-3
WARM_UP = 2
PROCESSOR = 36
"""The place of the last core among `stat_fields`."""


@dataclass(frozen=True, slots=True)
class Orders:
    """Where to run and for how long; on which cores to touch the memory first, if on others."""

    cores: Sequence[int]
    memory_of: Sequence[int]
    busy: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Told:
    """Each step's time, the CPU time of all, and the cores that it was seen on."""

    steps_s: list[float]
    cpu_s: float
    seen_on: list[int]


def work_of(orders: Orders) -> Callable[[], object]:
    """One step of this process; its memory lies on the node of the cores that touched it."""
    if orders.busy:
        return _spin
    os.sched_setaffinity(0, orders.memory_of or orders.cores)
    matrix, vector = np.ones(MATRIX_SIDE, np.float32), np.ones(MATRIX_SIDE[1], np.float32)
    return lambda: matrix @ vector


def run(work: Callable[[], object], seconds: float) -> Told:
    """Steps one after another until the time is up."""
    steps_s: list[float] = []
    seen_on: set[int] = set()
    cpu_s, start_s = time.process_time(), time.perf_counter()
    while not steps_s or sum(steps_s) < seconds:
        work()
        now_s = time.perf_counter()
        steps_s.append(now_s - start_s)
        start_s = now_s
        seen_on.add(int(stat_fields(os.getpid())[PROCESSOR]))
    return Told(steps_s, time.process_time() - cpu_s, sorted(seen_on))


def _spin() -> None:
    until_s = time.perf_counter() + SPIN_S
    while time.perf_counter() < until_s:
        pass


def main() -> None:
    """Get ready, wait for the others, work, tell."""
    orders = Orders(**json.loads(sys.argv[1]))
    work = work_of(orders)
    os.sched_setaffinity(0, orders.cores)
    for _ in range(WARM_UP):
        work()
    print("ready", flush=True)
    if sys.stdin.readline():
        print(json.dumps(asdict(run(work, orders.seconds))), flush=True)


if __name__ == "__main__":
    main()
