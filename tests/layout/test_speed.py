"""The steady state in closed form: beside the simulator, and what it must obey."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard import facts
from kilocard.engine_model.step_time import StepTime, step_time
from kilocard.errors import KilocardError
from kilocard.layout import Judge, Load, speed_at
from kilocard.notebook.layouts import simulated
from kilocard.parallel import Layout

H100 = step_time("llama-3.1-8b", "h100-sxm")
CASES = [
    ("llama-3.1-8b", "bf16", Layout(1), Load(1536, 512), 64),
    ("llama-3.1-8b", "bf16", Layout(1), Load(512, 128), 128),
    ("llama-3.1-8b", "bf16", Layout(2), Load(256, 32), 200),
    ("llama-3.1-8b", "bf16", Layout(1), Load(8000, 50), 8),
    ("llama-3.1-70b", "fp8", Layout(2), Load(1536, 512), 32),
    ("llama-3.1-70b", "fp8", Layout(8), Load(4000, 100), 16),
    ("llama-3.1-70b", "fp8", Layout(1, 4), Load(1536, 512), 64),
    ("qwen3-30b-a3b", "bf16", Layout(2), Load(1000, 1000), 100),
]


@pytest.mark.parametrize(("model", "weights", "layout", "load", "concurrency"), CASES)
def test_the_simulator_agrees(model: str, weights: str, layout: Layout, load: Load, concurrency: int) -> None:
    judge = Judge(facts.model(model), facts.card("h100-sxm"), load, weights=weights)
    told = judge.speed(judge.step(layout), layout, concurrency)
    seen = simulated(judge, layout, concurrency)
    assert told.tpot_s == pytest.approx(seen.tpot_s, rel=0.1)
    assert told.output_tokens_per_s == pytest.approx(seen.output_tokens_per_s, rel=0.1)
    assert told.ttft_s == pytest.approx(seen.ttft_s, rel=0.2)


def test_one_request_pays_its_prompt_and_its_steps() -> None:
    load, step = Load(1000, 101), H100
    alone = speed_at(step, load, 1, request_s=0.007)
    assert alone.ttft_s == pytest.approx(0.007 + step.step_s(1000, 1000, 1, 1000 * 1001 / 2))
    assert alone.tpot_s == pytest.approx(step.step_s(1, 1050.5, 1))


loads = st.builds(Load, st.integers(1, 4000), st.integers(2, 2000))


@given(loads, st.integers(1, 255))
@settings(max_examples=60)
def test_company_slows_each_and_speeds_all(load: Load, concurrency: int) -> None:
    fewer, more = (speed_at(H100, load, count) for count in (concurrency, concurrency + 1))
    assert more.tpot_s >= fewer.tpot_s * 0.999
    assert more.output_tokens_per_s >= fewer.output_tokens_per_s * 0.97


@given(loads, st.integers(1, 100))
@settings(max_examples=60)
def test_littles_law(load: Load, concurrency: int) -> None:
    speed = speed_at(H100, load, concurrency)
    stay_s = speed.ttft_s + (load.output_tokens - 1) * speed.tpot_s
    assert speed.output_tokens_per_s / load.output_tokens * stay_s == pytest.approx(concurrency)


def test_what_no_step_can_hold_is_refused() -> None:
    small = StepTime(np.full(17, 0.01), 0.0, 0.0, 0.0, 0.0)
    with pytest.raises(KilocardError, match="fill the budget of 16 tokens a step"):
        speed_at(small, Load(10, 10), 20)
    with pytest.raises(KilocardError, match="concurrency 0"):
        speed_at(small, Load(10, 10), 0)
    with pytest.raises(KilocardError, match="prompt_tokens 0"):
        Load(0, 1)
