"""Step times: over the datasheet's bound, monotone in everything that is more work, exact in picoseconds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard import facts
from kilocard.engine_model.coefficients import Coefficients
from kilocard.engine_model.compiled import plain
from kilocard.engine_model.scheduler import slowed_ps
from kilocard.engine_model.step_time import step_time
from kilocard.errors import KilocardError
from kilocard.roofline import roofline
from kilocard.specs.interconnect import Interconnect

MODELS = ["qwen3-8b", "llama-3.1-70b", "qwen3-30b-a3b", "deepseek-v3", "qwen3.6-27b", "llama-4-scout"]
WHOLE = Coefficients(weights_efficiency=1, kv_efficiency=1, compute_efficiency=1, attention_efficiency=1)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("batch", [1, 16, 256])
def test_no_step_beats_the_datasheet(model: str, batch: int) -> None:
    steps = step_time(model, "h100-sxm", tp=8, coefficients=WHOLE)
    bound = roofline(model, "h100-sxm", batch=batch, context=1000, tp=8)
    embedding = facts.model(model).vocab_size * facts.model(model).hidden_size * 2 / 8 / 3.35e12
    assert steps.step_s(batch, 1000 * batch, batch) > bound.decode_step_s - embedding


@pytest.mark.parametrize("model", MODELS)
def test_more_tokens_never_take_less_time(model: str) -> None:
    assert (np.diff(step_time(model, "h100-sxm", tp=8).tokens_s[1:]) >= 0).all()


def test_a_faster_memory_never_makes_a_slower_step() -> None:
    slow = facts.card("h100-sxm")
    fast = replace(slow, memory_bandwidth_gb_per_s=2 * slow.memory_bandwidth_gb_per_s)
    for tokens in (1, 64, 2048):
        times = [step_time("qwen3-8b", card).step_s(tokens, 5000, 1) for card in (fast, slow)]
        assert times[0] < times[1]


def test_every_kv_token_request_and_pair_adds_the_same() -> None:
    steps = step_time("qwen3-8b", "h100-sxm")
    one = steps.step_s(8, 1000, 8)
    assert steps.step_s(8, 2000, 8) - one == pytest.approx(1000 * steps.kv_token_s)
    assert steps.step_s(8, 1000, 9) - one == pytest.approx(steps.sequence_s)
    prompt = steps.step_s(8, 1000, 8, pairs=10)
    assert prompt - one == pytest.approx(steps.prefill_step_s + 10 * steps.pair_s)


def test_kv_of_a_rank_is_read_by_that_rank() -> None:
    whole, quarter = (step_time("llama-3.1-70b", "h100-sxm", tp=tp).kv_token_s for tp in (1, 4))
    assert whole == pytest.approx(4 * quarter)


@pytest.mark.parametrize(
    "name", ["weights_efficiency", "kv_efficiency", "link_efficiency", "long_message_share"]
)
@pytest.mark.parametrize("value", [0.0, 1e-300, 0.0009, 2.1, float("nan")])
def test_a_share_of_a_rate_that_cannot_be_is_refused(name: str, value: float) -> None:
    with pytest.raises(KilocardError, match=rf"coefficient {name} is .*; give a share from 0.001 to 2"):
        Coefficients().with_(**{name: value})


def test_a_step_that_would_last_for_days_is_refused() -> None:
    days = Coefficients(weights_efficiency=0.001, layer_s=3599.0)
    with pytest.raises(KilocardError, match=r"would take .* s, and at most 3,600 s are simulated"):
        step_time("llama-3.1-70b", "l4", coefficients=days).picoseconds()


@given(st.integers(0, 3600 * 10**12), st.integers(1, 10**6))
def test_a_slow_step_is_exact_where_64_bits_would_not_hold_the_product(lasts_ps: int, permille: int) -> None:
    assert plain(slowed_ps)(lasts_ps, permille) == lasts_ps * permille // 1000 < 2**63


def test_idle_experts_cost_what_the_calibration_says() -> None:
    none, all_of_them = (
        step_time("qwen3-30b-a3b", "h100-sxm", coefficients=Coefficients(idle_expert_share=share)).tokens_s
        for share in (1e-9, 1.0)
    )
    assert all_of_them[1] > 2 * none[1]
    assert all_of_them[2000] == pytest.approx(none[2000], rel=1e-6)


def test_picoseconds_are_the_seconds() -> None:
    steps = step_time("qwen3-8b", "h100-sxm")
    whole = steps.picoseconds()
    assert whole["base_ps"].dtype == np.int64
    assert whole["base_ps"] / 1e12 == pytest.approx(steps.tokens_s, abs=1e-12)
    assert whole["kv_token_ps"] / 1e12 == pytest.approx(steps.kv_token_s, rel=1e-4)


@pytest.mark.parametrize("tokens", [0, 2049, -1])
def test_a_step_over_the_budget_is_refused(tokens: int) -> None:
    with pytest.raises(KilocardError, match="2048"):
        step_time("qwen3-8b", "h100-sxm").step_s(tokens, 1, 1)


def test_tensor_parallel_needs_a_link_of_known_rate() -> None:
    with pytest.raises(KilocardError, match="link"):
        step_time("qwen3-8b", "k100-ai", tp=2)


def test_two_allreduces_a_layer_and_what_divides() -> None:
    found = Coefficients(allreduce_s=10e-6, link_efficiency=0.5)
    one, four = (step_time("llama-3.1-70b", "h100-sxm", tp=tp, coefficients=found).tokens_s for tp in (1, 4))
    bytes_each = 32 * 8192 * 2
    talk_s = 160 * (2 * 10e-6 + 2 * 3 / 4 * bytes_each / (0.5 * 450e9))
    own_s = found.step_s + 80 * found.layer_s
    assert four[32] - own_s - talk_s == pytest.approx((one[32] - own_s) / 4, rel=0.02)


def test_a_pipeline_passes_all_layers_and_sends_between_them() -> None:
    one, four = (step_time("llama-3.1-70b", "h100-sxm", pp=pp) for pp in (1, 4))
    sends_s = four.tokens_s - one.tokens_s
    assert (sends_s > 0).all() and sends_s[1] < 1e-3
    assert four.kv_token_s == one.kv_token_s and four.sequence_s == one.sequence_s


def test_a_pipeline_of_more_stages_than_layers_is_refused() -> None:
    with pytest.raises(KilocardError, match="81 stages of 80 layers"):
        step_time("llama-3.1-70b", "h100-sxm", pp=81)


@pytest.mark.parametrize(
    ("nearer", "farther"),
    [
        (Interconnect(), Interconnect(link="pcie5-x16")),
        (Interconnect(link="pcie5-x16"), Interconnect(link="pcie4-x16")),
        (Interconnect(), Interconnect(cards_per_node=2)),
        (Interconnect(cards_per_node=2), Interconnect(cards_per_node=2, network="ethernet-10g")),
    ],
)
def test_a_worse_way_between_cards_only_costs(nearer: Interconnect, farther: Interconnect) -> None:
    good, bad = (
        step_time("llama-3.1-70b", "h100-sxm", tp=4, interconnect=joined).tokens_s
        for joined in (nearer, farther)
    )
    assert (bad[64:] > good[64:]).all()


def test_a_link_of_no_rate_is_named_where_it_is_needed() -> None:
    step_time("qwen3.8-27b", "k100-ai")
    with pytest.raises(KilocardError, match="no rate is known for the link pcie-unspecified"):
        step_time("qwen3.8-27b", "k100-ai", tp=2)
    step_time("qwen3.8-27b", "k100-ai", tp=2, interconnect=Interconnect(link="pcie4-x16"))


def test_a_step_with_a_prompt_lasts_what_the_host_needs() -> None:
    floored = step_time("llama-3.1-8b", "h100-sxm", coefficients=Coefficients(prefill_floor_s=0.05))
    assert floored.step_s(16, 16, 1, pairs=136) == 0.05
    assert floored.step_s(1, 16, 1) < 0.05
    assert floored.picoseconds()["prefill_floor_ps"] == 50_000_000_000


def test_long_messages_at_a_lower_rate_slow_long_steps_alone() -> None:
    plain, slowed = (
        step_time("llama-3.1-70b", "h100-sxm", tp=2, max_num_batched_tokens=8192, coefficients=found).tokens_s
        for found in (Coefficients(), Coefficients(long_message_share=0.3))
    )
    long = 32 * 2**20 // (8192 * 2)
    assert (plain[: long + 1] == slowed[: long + 1]).all() and (plain[long + 1 :] < slowed[long + 1 :]).all()
