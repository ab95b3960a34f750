"""A twin of an engine: its costs are found again from what such costs would have measured."""

import numpy as np
import pytest

from kilocard.engine_model.step_time import StepTime
from kilocard.engine_model.watch import watch
from kilocard.errors import KilocardError
from kilocard.notebook import twin as module
from kilocard.notebook.twin import ANSWER_TOKENS, CROWD, LONG_TOKENS, SHORT_TOKENS, Twin, twin_on
from kilocard.specs.case import EngineSettings
from kilocard.workload import Fixed, Request, Workload

TRUE = StepTime(0.046 + 0.0005 * np.arange(2049), 4e-6, 0.0007, 0.02, 4e-7)
SETTINGS = EngineSettings(max_num_seqs=32, block_size=128, async_scheduling=False)


def run_of(requests: int, prompt_tokens: int):
    return watch(
        [Request(str(number), prompt_tokens, ANSWER_TOKENS) for number in range(requests)], SETTINGS, TRUE
    ).run


def test_costs_are_found_again():
    found = module._costs(
        run_of(1, SHORT_TOKENS), run_of(CROWD, SHORT_TOKENS), {n: run_of(1, n) for n in LONG_TOKENS}
    )
    step_s, token_s, sequence_s, kv_token_s, pair_s, prefill_step_s = found
    again = StepTime(step_s + token_s * np.arange(2049), kv_token_s, sequence_s, prefill_step_s, pair_s)
    load = Workload(24, Fixed(32), Fixed(40)).draw()
    told, true = (Twin(SETTINGS, costs, 0.0, "m", "c").serve(load, max_num_seqs=8) for costs in (again, TRUE))
    assert told.seconds == pytest.approx(true.seconds, rel=0.02)


def test_no_cost_is_negative_whatever_was_measured():
    rng = np.random.default_rng(0)
    for _ in range(50):
        found = module._never_negative(rng.uniform(0, 1, (7, 6)), rng.uniform(0.5, 2, 7))
        assert (found >= 0).all() and np.isfinite(found).all()


def test_a_twin_of_the_catalogue_takes_its_cache_from_the_ledger():
    h100 = twin_on("llama-3.1-8b", "h100-sxm", max_num_seqs=64)
    assert h100.settings.kv_blocks == 412_896 // 16
    assert twin_on("llama-3.1-8b", "h100-sxm", kv_blocks=10).settings.kv_blocks == 10
    with pytest.raises(KilocardError, match="never fits"):
        h100.serve(Workload(1, Fixed(200), Fixed(8)).draw(), kv_blocks=10)


def test_a_small_cache_holds_so_many_tokens_and_admits_one_request():
    spec = module.small_cache(blocks=24, block_tokens=128)
    assert spec.kv_cache_memory_bytes == 24 * 128 * 23_040
    assert spec.max_model_len < 24 * 128


def test_a_twin_counts_its_cards_and_what_they_leave() -> None:
    one, four = (twin_on("llama-3.1-8b", "h100-sxm", tensor_parallel_size=tp) for tp in (1, 4))
    assert four.step_time.tokens_s[1] < one.step_time.tokens_s[1]
    little = twin_on("llama-3.1-8b", "h100-sxm", gpu_memory_utilization=0.5)
    assert (little.settings.kv_blocks or 0) < (one.settings.kv_blocks or 0)
    assert twin_on("qwen3.5-27b", "h100-sxm").state_blocks > 0


def test_what_no_twin_can_have_is_one_line() -> None:
    with pytest.raises(KilocardError, match="leaves no KV cache"):
        twin_on("llama-3.1-70b", "h100-sxm")
    twin = twin_on("llama-3.1-8b", "h100-sxm")
    with pytest.raises(KilocardError, match="another twin"):
        twin.serve([Request("a", 5, 5)], tensor_parallel_size=8)
    with pytest.raises(KilocardError, match="max_num_seq"):
        twin.serve([Request("a", 5, 5)], max_num_seq=8)
