"""A change that goes through a pool while requests come: the run, and what was done meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil
from typing import Any

from pandas import DataFrame

from kilocard.box import describe_box
from kilocard.lifecycle import batch_size
from kilocard.load import Timeouts, replay
from kilocard.record import Run, Status
from kilocard.specs.cluster import read_cluster
from kilocard.supervisor.gateways import in_flight as counted
from kilocard.supervisor.gateways import seats_of
from kilocard.supervisor.process import AtWork
from kilocard.workload import Arrivals, Fixed, Workload

AFTER_S = 5.0
"""Of load before anything changes, and after all has changed."""


@dataclass(frozen=True, slots=True)
class Span:
    """A phase of one replica, in seconds of the run."""

    replica: str
    phase: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Rollout:
    """A run through a change; `events` are what the supervisor did, their `at_s` on the run's clock."""

    run: Run
    events: tuple[dict[str, Any], ...]
    replicas: tuple[str, ...]

    @property
    def lost(self) -> DataFrame:
        """Requests that did not end well."""
        return self.run.requests[self.run.requests["status"] != Status.OK]

    @property
    def spans(self) -> list[Span]:
        """What each replica was, from change to change; from the begin of the run on it served."""
        end_s = max(float(self.run.requests["last_token_s"].max()), *(it["at_s"] for it in self.events), 0.0)
        told = []
        for replica in self.replicas:
            phase, since_s = "serving", 0.0
            for event in self.events:
                if event.get("slot") == replica and event["event"] in PHASES:
                    told.append(Span(replica, phase, since_s, event["at_s"]))
                    phase, since_s = str(event["event"]), event["at_s"]
            told.append(Span(replica, phase, since_s, end_s))
        return [span for span in told if span.end_s > max(0.0, span.begin_s)]

    def when(self, event: str, slot: str = "") -> float:
        """When something was done first, in seconds of the run."""
        return next(
            float(it["at_s"]) for it in self.events if it["event"] == event and it.get("slot", "") == slot
        )

    @property
    def tried_on(self) -> set[str]:
        """The replicas that were started anew before the change was taken back, or rolled out."""
        judged_s = min(it["at_s"] for it in self.events if it["event"] in ("returning", "rolling"))
        again = (it for it in self.events if it["event"] == "starting" and it["at_s"] < judged_s)
        return {str(it["slot"]) for it in again}

    @property
    def took_s(self) -> float:
        """From the first replica's leave to the last one's return."""
        left = [it["at_s"] for it in self.events if it["event"] == "draining"]
        back = [it["at_s"] for it in self.events if it["event"] == "serving"]
        return max(back) - min(left) if left and back else 0.0

    @property
    def fewest(self) -> int:
        """How many replicas served at the least."""
        edges = sorted({edge for span in self.spans for edge in (span.begin_s, span.end_s)})
        middles = [(a + b) / 2 for a, b in pairwise(edges)]
        serving = [span for span in self.spans if span.phase == "serving"]
        return min(sum(span.begin_s <= at < span.end_s for span in serving) for at in middles)


ALONE_S = 2.0
"""Between the requests that show how long one takes by itself."""
BUSY, MOST_PER_S = 0.75, 3.0
PHASES = ("starting", "serving", "draining", "stopping", "empty", "given up")


def rolled(
    service: AtWork,
    model: str,
    change: Callable[[], None],
    *,
    rate_per_s: float,
    for_s: float,
    prompt_tokens: int = 64,
    output_tokens: int = 32,
    stamp: dict[str, Any] | None = None,
    seed: int = 0,
) -> Rollout:
    """Requests at a steady rate for so many seconds, with the change begun a few seconds in."""
    load = Workload(
        round(rate_per_s * for_s), Fixed(prompt_tokens), Fixed(output_tokens), Arrivals(rate_per_s), seed=seed
    )
    changing = threading.Timer(AFTER_S, change)
    changing.start()
    try:
        run = replay(service.url, model, workloads=load, warmup=0, timeouts=Timeouts(idle_s=60), stamp=stamp)
    finally:
        changing.join()
        service.await_that(service.is_ready)
    began_s = float(run.stamp.client["began_s"])
    events = [{**row, "at_s": row["unix_s"] - began_s} for row in service.events()]
    return Rollout(run, tuple(row for row in events if row["at_s"] > 0), tuple(sorted(service.engines())))


def calm_rate(service: AtWork, model: str, prompt_tokens: int, output_tokens: int) -> float:
    """Requests a second that keep one engine alone quite busy, were it to answer them one after another."""
    alone = Workload(4, Fixed(prompt_tokens), Fixed(output_tokens), Arrivals(1 / ALONE_S), seed=9)
    run = replay(service.url, model, workloads=alone, timeouts=Timeouts(idle_s=60))
    took_s = run.ok["last_token_s"] - run.ok["sent_s"]
    return round(min(MOST_PER_S, BUSY / float(took_s.median())), 2)


def starts_s(service: AtWork) -> dict[str, float]:
    """Seconds from each engine's last start to the moment when it served."""
    began: dict[str, float] = {}
    told: dict[str, float] = {}
    for row in service.events():
        slot = str(row.get("slot", ""))
        if row["event"] == "starting":
            began[slot] = row["t_s"]
        elif row["event"] == "serving" and slot in began:
            told[slot] = row["t_s"] - began.pop(slot)
    return {slot: told[slot] for slot in service.engines() if slot in told}


def change_s(
    starts: Mapping[str, float],
    rate_per_s: float,
    rule: Mapping[str, Any],
    *,
    drain_s: float,
    stop_s: float,
    share: float = 0.25,
) -> float:
    """Predicted seconds of a change: a batch of canaries and their trial, then the rest, batch by batch; the
    last is not waited for once it serves."""
    count = len(starts)
    batches = 1 + ceil((count - rule["replicas"]) / batch_size(count, share))
    each_s = drain_s + stop_s + max(starts.values())
    return float(batches * each_s + rule["least_requests"] / (rule["share"] * rate_per_s))


def trial_s(starts: Mapping[str, float], rate_per_s: float, rule: Mapping[str, Any]) -> float:
    """Seconds until a canary has started, beside engines that compute, and has served what it must, with as
    much again in hand."""
    served_s = float(rule["least_requests"] / (rule["share"] * rate_per_s))
    return AFTER_S + 1.5 * max(starts.values()) + 2 * served_s


def why_longer(rollout: Rollout, predicted_s: float) -> str:
    """In a sentence: what took more or less than was predicted."""
    starts = [it.end_s - it.begin_s for it in rollout.spans if it.phase == "starting"]
    drains = [it.end_s - it.begin_s for it in rollout.spans if it.phase == "draining"]
    if rollout.took_s < 1.15 * predicted_s:
        return "The parts are what they were thought to be."
    return (
        f"An engine took {max(starts):.0f} s to start, beside one that computes for everybody: both want the "
        f"same cores and the same disk. Draining took {max(drains):.1f} s at the most."
    )


def kill(service: AtWork, slot: str) -> None:
    """SIGKILL to an engine's own process."""
    kept = service.engines()[slot].kept
    if kept is not None:
        os.kill(kept.program_pid, signal.SIGKILL)


def in_flight(service: AtWork, slot: str) -> int:
    """What the gateway counts at an engine now."""
    rows = seats_of(read_cluster(service.path, {}))[0].rows() or []
    return counted(rows)[slot]


def versions(service: AtWork) -> set[str]:
    """Those that run."""
    state = service.state
    return {state.recipes[it.slot.runs].version for it in service.engines().values() if it.slot.runs}


def stamp_of(service: AtWork) -> str:
    """Where a table of its events comes from."""
    kind = "emulated" if service.is_emulated else "measured"
    return f"{kind} · {describe_box()['name']} · kilocard up, {datetime.now(UTC):%Y-%m-%d}"


def await_end(service: AtWork, event: str, within_s: float = 300.0) -> float:
    """Seconds until something was done once more."""
    before, began_s = _count(service, event), time.monotonic()
    service.await_that(lambda: _count(service, event) > before, within_s)
    return time.monotonic() - began_s


def _count(service: AtWork, event: str) -> int:
    return sum(row["event"] == event for row in service.events())
