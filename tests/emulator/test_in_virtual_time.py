"""An emulated engine under a clock that the test moves: to the picosecond what the simulator foretells, and
what it counts of it."""

import asyncio
from itertools import groupby
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from emulator_client import case_of
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.emulator.clock import Clock
from kilocard.emulator.engine import Engine
from kilocard.emulator.faults import Faults
from kilocard.emulator.prefix import PrefixNames
from kilocard.emulator.rows import RequestRows
from kilocard.emulator.tally import Tally
from kilocard.engine_model.calibration import Calibration, calibration_for
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.fleet.build import build
from kilocard.fleet.simulate import simulate_traffic
from kilocard.fleet.traffic import NOBODY, Paths, Traffic
from kilocard.specs import Case


class ByHand(Clock):
    """It stands where it is put."""

    at: int = 0

    def now_ps(self) -> int:
        return self.at

    def at_ps(self, moment: float) -> int:
        return self.at


class Heard(RequestRows):
    """Notes the end of every step that gives a request a token."""

    def advance(self, replica: int) -> tuple[int, int, list[Any]]:
        event_ps, end_ps, lucky = super().advance(replica)
        for stream in lucky:
            stream.tokens_ps.append(end_ps)
        return event_ps, end_ps, lucky


class Asked(SimpleNamespace):
    """A request as far as an engine looks at it."""

    def __init__(self, engine: Engine, prompt: int, output: int) -> None:
        asked = SimpleNamespace(
            prompt_tokens=prompt, output_tokens=output, most_tokens=output, priority=0, finish_reason="length"
        )
        super().__init__(
            engine=engine, asked=asked, path=[], row=NOBODY, arrived_ps=0, first_ps=0, tokens_ps=[], left=0
        )

    __hash__ = object.__hash__

    def token(self) -> None:
        self.left += 1
        if self.left == 1:
            self.engine.begun(self)
        if self.left == self.asked.output_tokens:
            self.engine.ended(self)


TIGHT: dict[str, Any] = {
    "max_num_seqs": 4,
    "max_num_batched_tokens": 64,
    "kv_blocks": 40,
    "max_model_len": 500,
}
first = itemgetter(0)
REQUESTS = st.lists(
    st.tuples(st.integers(0, PICOSECONDS // 5), st.integers(1, 200), st.integers(1, 60)),
    min_size=1,
    max_size=25,
)


def foretold(case: Case, asked: list[tuple[int, int, int]], calibration: Calibration) -> Any:
    """The simulator's rows of these requests."""
    arrival_ps, prompt, output = (np.array(column, np.int64) for column in zip(*asked, strict=True))
    count, nothing, none = len(asked), np.zeros(len(asked), np.int64), np.zeros(0, np.int64)
    paths, nobody = Paths(nothing, nothing, none, none), np.full(count, NOBODY)
    seconds = arrival_ps / PICOSECONDS
    traffic = Traffic(seconds, prompt, output, nothing, nothing, nobody, np.zeros(count), paths)
    rows = simulate_traffic(case, traffic, calibration).engines.tables.requests
    assert (rows.arrival_ps == arrival_ps).all()
    return rows


def engine_of(case: Case, calibration: Calibration, clock: Clock) -> Engine:
    none = np.zeros(0, np.int64)
    one, zero = np.ones(1, np.int64), np.zeros(1, np.int64)
    idle = Traffic(np.zeros(1), one, one, zero, zero, zero - 1, np.zeros(1), Paths(zero, zero, none, none))
    rows = Heard(build(case, idle, calibration)[0])
    return Engine(0, rows, PrefixNames(16, 40), clock, 0.0, Tally(500))


def served(
    engine: Engine, clock: ByHand, asked: list[tuple[int, int, int]], wakes_ps: list[int]
) -> list[Asked]:
    """The requests, read when they come; the engine wakes up then, and at the given times."""
    streams = [Asked(engine, prompt, output) for _, prompt, output in asked]
    moments = [(at, stream) for (at, _, _), stream in zip(asked, streams, strict=True)]
    for at, together in groupby(sorted([*moments, *((at, None) for at in wakes_ps)], key=first), key=first):
        clock.at = at
        for _, stream in together:
            if stream is not None:
                engine.submit(stream, 0.0)
        engine._wake()
    clock.at = 10**6 * PICOSECONDS
    engine._wake()
    engine.close()
    return streams


@settings(max_examples=40, deadline=None)
@given(REQUESTS, st.lists(st.integers(0, PICOSECONDS), max_size=20), st.booleans())
def test_whenever_it_wakes_up_every_token_has_the_simulators_time(
    asked: list[tuple[int, int, int]], wakes_ps: list[int], ahead: bool
) -> None:
    case = case_of(**TIGHT, async_scheduling=ahead)
    calibration = calibration_for(str(case.card))
    asked = sorted(asked, key=lambda one: one[0])

    async def serve() -> tuple[list[Asked], Tally]:
        clock = ByHand()
        engine = engine_of(case, calibration, clock)
        return served(engine, clock, asked, wakes_ps), engine.tally

    streams, tally = asyncio.run(serve())
    rows = foretold(case, asked, calibration)
    told = [(stream.tokens_ps[0], stream.tokens_ps[-1]) for stream in streams]
    assert told == list(zip(rows.first_ps.tolist(), rows.last_ps.tolist(), strict=True))
    assert all(stream.left == len(stream.tokens_ps) == stream.asked.output_tokens for stream in streams)
    assert sums_of(tally) == pytest.approx(foretold_sums(rows))


def sums_of(tally: Tally) -> dict[str, float]:
    """What `/metrics` tells as the sums of its histograms."""
    names = ("first_token", "whole", "queue", "prefill", "decode", "inference", "preemptions")
    return {name: getattr(tally, name).total for name in names}


def foretold_sums(rows: Any) -> dict[str, float]:
    spans_ps = {
        "first_token": rows.first_ps - rows.arrival_ps,
        "whole": rows.last_ps - rows.arrival_ps,
        "queue": rows.scheduled_ps - rows.arrival_ps,
        "prefill": rows.first_ps - rows.scheduled_ps,
        "decode": rows.last_ps - rows.first_ps,
        "inference": rows.last_ps - rows.scheduled_ps,
    }
    sums = {name: spans.sum() / PICOSECONDS for name, spans in spans_ps.items()}
    return {**sums, "preemptions": rows.preemptions.sum()}


def test_a_hang_counts_for_the_requests_that_wait_through_it() -> None:
    """However late the process notices that a step has ended."""
    case, clock = case_of(**TIGHT), ByHand()

    async def whole_s(hang_s: int) -> float:
        engine = engine_of(case, calibration_for(str(case.card)), clock)
        clock.at = 0
        engine.submit(Asked(engine, 20, 30), 0.0)
        clock.at = PICOSECONDS // 20
        engine.set_faults(Faults(hang=hang_s > 0))
        clock.at += hang_s * PICOSECONDS
        engine.set_faults(Faults())
        clock.at += 100 * PICOSECONDS
        engine._wake()
        engine.close()
        assert engine.tally.finished["length"] == 1
        return engine.tally.whole.total

    sound_s, hung_s = asyncio.run(whole_s(0)), asyncio.run(whole_s(7))
    assert 0.1 < sound_s < 2
    assert hung_s == pytest.approx(sound_s + 7)
