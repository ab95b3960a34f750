"""Prompts asked in turn: what a prefix cache gives back, block by block."""

import numpy as np
import pytest

from kilocard.engine_model.step_time import StepTime
from kilocard.errors import KilocardError
from kilocard.fleet.in_turn import Prompt, ask_in_turn
from kilocard.record import Kind, Run
from kilocard.specs.case import EngineSettings
from kilocard.stats import ttft_s

BLOCK = 128
MILLISECOND_A_TOKEN = StepTime(0.001 * np.arange(4097), 0.0, 0.0, prefill_step_s=0.01, pair_s=0.0)


def asked(prompts: list[Prompt], kv_blocks: int = 100, step: StepTime = MILLISECOND_A_TOKEN) -> Run:
    engine = EngineSettings(
        max_num_seqs=4, max_num_batched_tokens=4096, block_size=BLOCK, kv_blocks=kv_blocks
    )
    return ask_in_turn(prompts, engine, step, model="smollm2-135m", source="a test")


def cached(run: Run) -> list[int]:
    return run.requests["cached_tokens"].tolist()


@pytest.mark.parametrize(
    ("shared", "found"), [(0, 0), (127, 0), (128, 128), (200, 128), (1499, 1408), (1500, 1408)]
)
def test_only_whole_blocks_are_found(shared: int, found: int) -> None:
    assert cached(asked([Prompt(1500, 0, shared)] * 3)) == [0, found, found]


def test_the_last_token_is_always_computed() -> None:
    assert cached(asked([Prompt(1024, 0, 1024)] * 2)) == [0, 1024 - BLOCK]


def test_the_wait_is_that_of_the_tokens_that_were_not_found() -> None:
    waits = ttft_s(asked([Prompt(1000, 0, 640)] * 2).requests)
    assert waits.tolist() == pytest.approx([1.010, 0.370])


def test_attended_pairs_count_the_tokens_that_were_found() -> None:
    pairs = StepTime(np.zeros(4097), 0.0, 0.0, prefill_step_s=0.0, pair_s=1e-6)
    waits = ttft_s(asked([Prompt(1000, 0, 640)] * 2, step=pairs).requests)
    assert waits.tolist() == pytest.approx([1000 * 1001 / 2e6, (360 * 640 + 360 * 361 / 2) / 1e6])


@pytest.mark.parametrize(("streams", "found"), [(12, 896), (13, 512), (25, 0)])
def test_a_prefix_is_lost_from_its_end_and_then_whole(streams: int, found: int) -> None:
    """Eight blocks a prompt, a hundred in all: the thirteenth begins to eat the first."""
    run = asked([Prompt(1024, stream, 1024) for stream in range(streams)] * 2)
    assert cached(run)[streams:] == [found] * streams


def test_it_is_a_simulated_run_that_names_its_source() -> None:
    run = asked([Prompt(10)])
    assert run.stamp.kind is Kind.SIMULATED
    assert run.stamp.source == "a test"


def test_what_cannot_be_asked_is_said() -> None:
    with pytest.raises(KilocardError, match="cannot share 11"):
        Prompt(10, 0, 11)
    with pytest.raises(KilocardError, match="no prompt"):
        asked([])
    with pytest.raises(KilocardError, match="kv_blocks"):
        ask_in_turn([Prompt(10)], EngineSettings(), MILLISECOND_A_TOKEN, model="smollm2-135m", source="")
