"""Prompts asked one after the other of one engine, as a person at a terminal asks: in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kilocard.engine_model.calibration import Calibration
from kilocard.engine_model.coefficients import Coefficients
from kilocard.engine_model.step_time import StepTime
from kilocard.errors import KilocardError
from kilocard.fleet.result import as_run
from kilocard.fleet.simulate import simulate_traffic
from kilocard.fleet.traffic import NOBODY, Paths, Traffic
from kilocard.record import Run
from kilocard.specs.case import Case, EngineSettings
from kilocard.specs.demand import Demand, Stage


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt whose first `shared_tokens` are those of every other prompt of the same `stream`."""

    tokens: int
    stream: int = 0
    shared_tokens: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.shared_tokens <= self.tokens or self.tokens < 1:
            raise KilocardError(
                f"a prompt of {self.tokens} tokens cannot share {self.shared_tokens}: share 0 to all of them"
            )


def ask_in_turn(
    prompts: Sequence[Prompt],
    engine: EngineSettings,
    step: StepTime,
    *,
    model: str,
    source: str,
    output_tokens: int = 1,
) -> Run:
    """Each prompt when the one before has its answer; `source` says where the step time is from.

    The engine's `kv_blocks` have to be given: a step time alone tells nothing of the memory.
    """
    if not prompts:
        raise KilocardError("no prompt to ask: give at least one")
    if engine.kv_blocks is None:
        raise KilocardError("the engine's KV cache is unknown: give kv_blocks")
    demand = Demand(
        stages=(Stage(concurrency=1, requests=len(prompts)),),
        prompt_tokens=max(prompt.tokens for prompt in prompts),
        output_tokens=output_tokens,
    )
    case = Case(model=model, card="as measured", engine=engine, workload=demand)
    calibration = Calibration("step time", "run", Coefficients(request_s=0.0), source)
    simulated = simulate_traffic(case, _traffic(prompts, output_tokens), calibration, step=step)
    return as_run(case, simulated, calibration)


def _traffic(prompts: Sequence[Prompt], output_tokens: int) -> Traffic:
    count = len(prompts)
    nothing = np.zeros(count, np.int64)
    return Traffic(
        arrival_s=np.where(np.arange(count) == 0, 0.0, np.inf),
        prompt_tokens=np.array([prompt.tokens for prompt in prompts], np.int64),
        output_tokens=np.full(count, output_tokens, np.int64),
        stage=nothing,
        priority=nothing,
        follows=np.full(count, NOBODY, np.int64),
        gap_s=np.zeros(count),
        paths=Paths(
            starts=np.arange(count),
            lengths=np.ones(count, np.int64),
            streams=np.array([prompt.stream for prompt in prompts], np.int64),
            end_tokens=np.array([prompt.shared_tokens for prompt in prompts], np.int64),
        ),
        closed_loop=True,
    )
