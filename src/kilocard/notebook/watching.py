"""What a gateway tells of its replicas while a load runs: samples over time, beside the run's requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from threading import Event
from time import time
from typing import Any

import pandas as pd

from kilocard.beside import beside
from kilocard.gateway.process import AtWork
from kilocard.record import REQUEST_COLUMNS, SAMPLE_COLUMNS, Run
from kilocard.record.table import as_typed, typed

EVERY_S = 0.1
GATEWAY = "gateway"
"""Named as the replica of those samples that are of the gateway itself: its line, and all in flight."""


@dataclass(slots=True)
class Watch:
    """Listings of `GET /replicas`, each with the time of this machine's clock."""

    seen: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def beside(self, run: Run) -> Run:
        """The run with what was seen meanwhile as its samples, on its own clock; replicas are numbered as
        their pool lists them."""
        began_s = float(run.stamp.client["began_s"])
        rows = [row for at_s, listing in self.seen for row in _rows(at_s - began_s, listing)]
        return replace(run, samples=typed(rows, SAMPLE_COLUMNS))


@contextmanager
def watched(running: AtWork, every_s: float = EVERY_S) -> Iterator[Watch]:
    """Ask a gateway for its replicas, again and again, until the block ends."""
    watch = Watch()

    def look(ended: Event) -> None:
        while not ended.wait(every_s):
            watch.seen.append((time(), running.order("/replicas")))

    with beside(look, "watch"):
        yield watch


def states_of(run: Run, replica: str) -> list[tuple[float, str]]:
    """When a replica was first seen in each state that it came into: seconds on the run's clock, and the
    state."""
    mine = run.samples[run.samples["replica"] == replica].sort_values("t_s")
    seen: list[tuple[float, str]] = []
    for t_s, state in zip(mine["t_s"], mine["state"], strict=True):
        if not seen or seen[-1][1] != state:
            seen.append((float(t_s), str(state)))
    return seen


def first_in(run: Run, replica: str, state: str, after_s: float = 0.0) -> float:
    """When it was first seen in a state, from a moment on; infinite where it never was."""
    return next((t_s for t_s, it in states_of(run, replica) if it == state and t_s >= after_s), inf)


def with_waits(run: Run, log: Path) -> Run:
    """The run with the seconds that each request waited at the gateway, as the access log has them."""
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    waits = {entry["request_id"]: entry["queue_s"] for entry in entries if "queue_s" in entry}
    table = run.requests.copy()
    table["queue_s"] = pd.to_numeric(table["request_id"].map(waits)).astype("Float64")
    return replace(run, requests=as_typed(table, REQUEST_COLUMNS))


def _rows(t_s: float, listing: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waiting = sum(listing["waiting"].values())
    yield {"t_s": t_s, "replica": GATEWAY, "running": listing["in_flight"], "waiting": waiting}
    for number, told in enumerate(listing["replicas"]):
        yield {
            "t_s": t_s,
            "replica": str(number),
            "running": told["in_flight"],
            "state": told["state"],
            "weight": told["share"],
        }
