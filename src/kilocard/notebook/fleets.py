"""Fleets side by side: the same loads at the same time, each through a gateway with settings of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import time
from typing import Any

from kilocard.beside import beside
from kilocard.emulator import Emulated, emulated
from kilocard.gateway.process import AtWork, gateway_over
from kilocard.load import replay
from kilocard.notebook.races import numbered
from kilocard.notebook.watching import watched, with_waits
from kilocard.record import Run
from kilocard.specs import Case
from kilocard.workload import Workload

POOL = "chat"


@dataclass(frozen=True, slots=True)
class Change:
    """What befalls one engine of each fleet, so many seconds after the loads were begun."""

    after_s: float
    engine: int
    fault: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Played:
    """What a fleet did: its requests, samples of its gateway, and when each change came, on the run's
    clock."""

    run: Run
    changed_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one fleet: the cap of each replica (0: none), keys of the gateway's section, and how many of the
    loads it is asked, if not all."""

    cap: int = 0
    gateway: Mapping[str, Any] = field(default_factory=dict)
    loads: int | None = None


def side_by_side(
    case: Case, loads: Sequence[Workload], fleets: Mapping[str, Settings], changes: Sequence[Change] = ()
) -> dict[str, Played]:
    """Play the loads one after another to each fleet, all fleets at the same time.

    Each has the case's replicas, emulated in real time by one process for all; the gateways are real ones,
    a process each. Replicas are told by their number in their fleet.
    """
    count = case.replicas
    wide = case.model_copy(update={"replicas": count * len(fleets), "slow": {}, "cap": None})
    faults = [
        f"slow={times}@{fleet * count + engine}"
        for fleet in range(len(fleets))
        for engine, times in case.slow.items()
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kilocard-fleets-")))
        engines = stack.enter_context(emulated(wide, faults=faults))
        logs = [folder / f"{fleet}.log" for fleet in range(len(fleets))]
        parts = [engines.urls[fleet * count :][:count] for fleet in range(len(fleets))]
        running = [
            stack.enter_context(gateway_over(_cluster(engines.model, urls, it, log)))
            for urls, it, log in zip(parts, fleets.values(), logs, strict=True)
        ]
        with (
            ThreadPoolExecutor(len(fleets), thread_name_prefix="kilocard-fleet") as threads,
            _changing(engines, changes, [fleet * count for fleet in range(len(fleets))]) as changed,
        ):
            begun = [
                threads.submit(_played, one, engines.model, loads[: it.loads])
                for one, it in zip(running, fleets.values(), strict=True)
            ]
            runs = [one.result() for one in begun]
        return {
            name: Played(
                with_waits(numbered(run, urls), log),
                tuple(at_s - float(run.stamp.client["began_s"]) for at_s in changed),
            )
            for name, run, urls, log in zip(fleets, runs, parts, logs, strict=True)
        }


def _played(running: AtWork, model: str, loads: Sequence[Workload]) -> Run:
    with watched(running) as watch:
        run = replay(running.url, model, workloads=loads)
    return watch.beside(run)


def _cluster(model: str, urls: Sequence[str], settings: Settings, log: Path) -> dict[str, Any]:
    pool = {"name": POOL, "cap": settings.cap, "replicas": list(urls)}
    gateway = {"access_log": {"path": str(log)}, **settings.gateway}
    return {"name": "fleet", "model": model, "pools": [pool], "gateway": gateway}


@contextmanager
def _changing(
    engines: Emulated, changes: Sequence[Change], firsts: Sequence[int]
) -> Iterator[Sequence[float]]:
    """While the block runs, each change in its time; when it came, in seconds since 1970."""
    began_s, came_s = time(), list[float]()

    def change(ended: Event) -> None:
        for one in sorted(changes, key=lambda it: it.after_s):
            if ended.wait(max(0.0, began_s + one.after_s - time())):
                return
            came_s.append(time())
            for first in firsts:
                engines.fault(first + one.engine, **one.fault)

    with beside(change, "changes"):
        yield came_s
