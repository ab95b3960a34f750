"""One engine of the model, watched step by step: what each step holds, and what became of the requests.

It takes the very requests that a load test sends, so that a prediction and a measurement answer the same
question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np
from numba import typeof, types

from kilocard import __version__
from kilocard.box import describe_box
from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS, compiled_entry
from kilocard.engine_model.idle import idle_engines
from kilocard.engine_model.requests import blocks_of, check, request_table, run_rows
from kilocard.engine_model.scheduler import arrive, make_plan
from kilocard.engine_model.state import (
    NOBODY,
    PATH,
    PREFILLS,
    Engines,
    Tables,
    new_entries,
    table,
)
from kilocard.engine_model.step_time import StepTime
from kilocard.errors import KilocardError
from kilocard.record import Kind, Run, Stamp
from kilocard.specs.case import EngineSettings
from kilocard.workload import Request


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of the engine held; requests by their place in the list that was asked for."""

    start_s: float
    end_s: float
    prefilled: tuple[int, ...]
    prefill_tokens: int
    decoded: tuple[int, ...]
    written: tuple[int, ...]
    """Who gets a token at its end: those who decoded, and those whose prompt ended in it."""
    waiting: tuple[int, ...]
    preempted: int
    """Requests preempted since the engine began."""
    kv_blocks: int
    """Blocks in use."""
    kv_tokens: int
    """Tokens that those hold."""

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Watched:
    """Every step of an engine, and its requests as a run like any other."""

    steps: tuple[Step, ...]
    run: Run
    kv_blocks: int
    block_tokens: int

    @property
    def seconds(self) -> float:
        """From the first request to the last token."""
        return float(self.run.requests["last_token_s"].max() - self.run.requests["sent_s"].min())

    @property
    def preemptions(self) -> int:
        """Requests thrown out, in all."""
        return self.steps[-1].preempted


def watch(
    requests: Sequence[Request],
    settings: EngineSettings,
    step_time: StepTime,
    *,
    request_s: float = 0.0,
    state_blocks: int = 0,
    model: str = "",
    card: str = "",
) -> Watched:
    """Serve the requests on one engine; those without a time arrive at once, at 0.

    `request_s` is what a request costs outside the steps, `state_blocks` the fixed state of a sequence in KV
    blocks. Without `kv_blocks` the cache has room for all.
    """
    requests = tuple(requests)
    engines = _engines(requests, settings, step_time, state_blocks)
    replica, asked = engines.replicas[0], engines.tables.requests
    order, served, steps = list(np.argsort(asked.arrival_ps, kind="stable")), 0, []
    while True:
        next_ps = int(asked[order[served]].arrival_ps) if served < len(order) else NEVER_PS
        if replica.event_ps < next_ps:
            _plan(engines)
            if replica.tokens > 0:
                steps.append(_step(engines))
        elif next_ps < NEVER_PS:
            _arrive(engines, order[served], next_ps)
            served += 1
        else:
            break
    stamp = _stamp(settings, model, card)
    run = Run.from_rows(
        run_rows(requests, asked, _longest_gaps(steps), request_s), stamp, _samples(steps, replica)
    )
    return Watched(tuple(steps), run, int(replica.kv_blocks), settings.block_size)


def _engines(
    requests: Sequence[Request], settings: EngineSettings, step_time: StepTime, state_blocks: int
) -> Engines:
    if not requests:
        raise KilocardError("an engine without requests has no steps: give at least one")
    for request in requests:
        check(request, settings)
    needed = [state_blocks + blocks_of(request, settings) for request in requests]
    kv_blocks = settings.kv_blocks or sum(needed) + len(needed)
    if max(needed) > kv_blocks:
        raise KilocardError(
            f"a request of {max(needed)} blocks never fits into a KV cache of {kv_blocks}: shorten it, or "
            "raise kv_blocks"
        )
    tables = Tables(request_table(requests), table(1, PATH), new_entries(1024 + 2 * len(requests)))
    return idle_engines(1, settings, step_time, tables, kv_blocks=kv_blocks, state_blocks=state_blocks)


def _step(engines: Engines) -> Step:
    """The plan that was made last."""
    replica = engines.replicas[0]
    plan, start_ps, block_tokens = int(replica.plan), int(replica.run_start_ps), int(replica.block_tokens)
    slots = engines.slots[0, : int(replica.occupied)].view(np.ndarray)
    request, last_plan, offset = slots["request"], slots["last_plan"], slots["offset"]
    scheduled = np.arange(len(slots)) < replica.scheduled
    still_reads = last_plan == PREFILLS
    ends_prompt = scheduled & ~still_reads & (offset == slots["target"] - plan)
    prefills = scheduled & still_reads | ends_prompt
    decodes = scheduled & ~prefills & (last_plan >= plan)
    tokens = np.where(still_reads, slots["computed"], offset + np.minimum(plan, last_plan))
    held = np.where(slots["blocks"] > 0, tokens, 0)
    lacking = np.where(still_reads, 0, np.maximum(-(-held // block_tokens) - slots["blocks"], 0))
    return Step(
        start_s=start_ps / PICOSECONDS,
        end_s=(start_ps + int(replica.step_ps)) / PICOSECONDS,
        prefilled=tuple(request[prefills].tolist()),
        prefill_tokens=int(replica.tokens) - int(decodes.sum()),
        decoded=tuple(request[decodes].tolist()),
        written=tuple(request[decodes | ends_prompt].tolist()),
        waiting=tuple(_line(engines.tables.requests, int(replica.waiting_head))),
        preempted=int(replica.preemptions),
        kv_blocks=int(replica.kv_blocks - replica.free_blocks) + int(lacking.sum()),
        kv_tokens=int(held.sum()),
    )


def _longest_gaps(steps: Sequence[Step]) -> dict[int, float]:
    """The longest wait between two tokens of each request that has two."""
    last_s: dict[int, float] = {}
    longest: dict[int, float] = {}
    for step in steps:
        for number in step.written:
            if number in last_s:
                longest[number] = max(longest.get(number, 0.0), step.end_s - last_s[number])
            last_s[number] = step.end_s
    return longest


def _line(requests: Any, head: int) -> Iterator[int]:
    """The waiting line, its head first."""
    while head != NOBODY:
        yield int(head)
        head = requests[head].behind


def _samples(steps: Sequence[Step], replica: Any) -> list[dict[str, Any]]:
    return [
        {
            "t_s": step.start_s,
            "replica": "0",
            "running": len(step.prefilled) + len(step.decoded),
            "waiting": len(step.waiting),
            "kv_used_ratio": step.kv_blocks / int(replica.kv_blocks),
            "preemptions": step.preempted,
        }
        for step in steps
    ]


def _stamp(settings: EngineSettings, model: str, card: str) -> Stamp:
    return Stamp(
        kind=Kind.SIMULATED,
        model=model,
        engine="kilocard engine model",
        engine_version=__version__,
        card=card,
        box=describe_box(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        settings=settings.model_dump(exclude_defaults=True),
        kilocard_version=__version__,
    )


def _plan(engines: Engines) -> None:
    _machine_code()[0](engines)


def _arrive(engines: Engines, request: int, now_ps: int) -> None:
    _machine_code()[1](engines, request, now_ps)


def _one_plan(engines: Engines) -> None:
    replica = engines.replicas[0]
    make_plan(engines.tables, replica, engines.slots[0], engines.base_ps[0], 1)
    replica.finished = NOBODY


def _one_arrival(engines: Engines, request: int, now_ps: int) -> None:
    arrive(engines.tables.requests, engines.replicas[0], engines.tables.requests[request], now_ps)


@lru_cache(maxsize=1)
def _machine_code() -> tuple[Any, Any]:
    """Both ways to move an engine, compiled once; plain Python where numba is off."""
    costs = StepTime(np.zeros(2049), 0, 0, 0, 0)
    engines = typeof(_engines([Request("0", 1, 1)], EngineSettings(), costs, 0))
    plan = compiled_entry(_one_plan, types.void(engines))
    return plan, compiled_entry(_one_arrival, types.void(engines, types.int64, types.int64))
