"""The bounds: worked examples on paper, and the laws that they obey."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.dtypes import KvDtype, WeightDtype
from kilocard.facts.sharding import valid_tensor_parallel
from kilocard.roofline import Roofline, collective_s, decode_step_s, peaks, roofline, step_terms

MODELS = sorted(facts.models())
CARDS = sorted(set(facts.cards()) - {"ascend-910b"})


def bound(model: str = "qwen3-8b", card: str = "h100-sxm", **changes: object) -> Roofline:
    settings: dict[str, object] = {"batch": 1, "context": 1024, **changes}
    return roofline(model, card, **settings)  # type: ignore[arg-type]


def test_one_sequence_runs_at_bandwidth_over_weights() -> None:
    """The rule of thumb: 3.35 TB/s over 16.4 GB of weights is 204 tokens/s."""
    assert bound(context=1).decode_tokens_per_s == pytest.approx(3.35e12 / 16_381_470_720, rel=1e-4)


def test_a_decode_step_on_paper() -> None:
    result = bound(batch=32, context=4096)
    assert result.decode_weights_read_bytes == 16_381_470_720
    assert result.decode_kv_read_bytes == 32 * 4096 * 147_456
    assert result.decode_step_s == pytest.approx((16_381_470_720 + 32 * 4096 * 147_456) / 3.35e12)
    assert result.limited_by == "memory_bandwidth"
    matmuls = 8_190_735_360 - 151936 * 4096 - (36 * (2 * 4096 + 256) + 4096)
    attention = 4 * 36 * 32 * 128 * 4096
    assert result.decode_flops == pytest.approx(32 * (2 * matmuls + attention))
    assert result.decode_compute_s == pytest.approx(result.decode_flops / 989e12)
    assert result.collective_s == 0


def test_a_prefill_on_paper() -> None:
    result = bound(context=8192)
    body = 36 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12288)
    causal = 4 * 36 * 32 * 128 * 8192 * 8193 / 2
    assert result.prefill_flops == pytest.approx(2 * 8192 * body + causal + 2 * 151936 * 4096)
    assert result.prefill_s == pytest.approx(result.prefill_flops / 989e12)
    assert result.prefill_limited_by == "compute"
    assert bound(context=1).prefill_limited_by == "memory_bandwidth"


def test_moe_reads_the_experts_that_a_batch_touches() -> None:
    one, many = bound("qwen3-30b-a3b", batch=1), bound("qwen3-30b-a3b", batch=4096)
    expert = 2 * 3 * 2048 * 768
    assert one.experts_touched_per_layer == pytest.approx(8)
    assert many.experts_touched_per_layer == pytest.approx(128)
    assert many.decode_weights_read_bytes == pytest.approx(61_064_245_248, rel=1e-6)
    missing = many.decode_weights_read_bytes - one.decode_weights_read_bytes
    assert missing == pytest.approx(48 * 120 * expert, rel=1e-6)
    assert bound("qwen3-30b-a3b", batch=2).experts_touched_per_layer == pytest.approx(8 + 8 * (1 - 8 / 128))


def test_mla_and_hybrid_have_their_own_terms() -> None:
    mla = step_terms(facts.model("deepseek-v3"), WeightDtype.FP8, KvDtype.BF16, 8)
    assert mla.kv_bytes_per_token == 61 * 576 * 2
    assert mla.decode_attention_flops == 2 * 61 * 128 * (576 + 512) / 8
    assert mla.prefill_attention_flops == 2 * 61 * 128 * (192 + 128) / 8
    hybrid = bound("qwen3.6-27b", batch=4)
    assert hybrid.decode_state_bytes == 2 * 4 * 48 * (48 * 128 * 128 * 4 + 10240 * 3 * 2)
    assert hybrid.decode_kv_read_bytes == 4 * 1024 * 65_536


def test_formats_multiply_at_their_own_peak_where_the_card_has_one() -> None:
    assert bound(weights="fp8").peak_flops_per_s == 1979e12
    assert bound(weights="int4").peak_flops_per_s == 989e12
    a100 = bound(card="a100-sxm-80gb", weights="fp8")
    assert a100.peak_flops_per_s == 312e12
    assert "no fp8 units" in " ".join(a100.notes)
    assert bound(card="a100-sxm-80gb", weights="int8").peak_flops_per_s == 624e12
    assert bound(weights="fp32").peak_flops_per_s == 67e12


def test_the_ridge_is_where_the_limit_changes() -> None:
    result = bound(context=1)
    assert result.ridge_flops_per_byte == pytest.approx(989e12 / 3.35e12)
    assert result.batch_at_ridge
    assert bound(context=1, batch=result.batch_at_ridge).limited_by == "compute"
    assert bound(context=1, batch=result.batch_at_ridge - 1).limited_by == "memory_bandwidth"
    assert bound(context=100_000).batch_at_ridge is None
    assert bound(context=100_000).batch_at_ridge_without_kv is not None


def test_collectives_on_paper() -> None:
    moved = 2 * 3 / 4 * 32 * 4096 * 2
    nvlink, pcie = moved / (0.82 * 450e9) + 2 * 8.7e-6, moved / (0.4 * 32e9) + 2 * 9.4e-6
    assert bound(batch=32, tp=4).collective_s == pytest.approx(2 * 36 * nvlink)
    assert bound(card="l40s", batch=32, tp=4).collective_s == pytest.approx(2 * 36 * pcie)
    assert bound(card="k100-ai", tp=2).collective_s is None
    assert collective_s("qwen3-8b", "h100-sxm", 32, 1) == 0


def test_what_rests_on_unverified_facts_says_so() -> None:
    assert bound().unverified == ()
    assert "k100-ai.memory_bandwidth_gb_per_s" in bound(card="k100-ai").unverified
    assert "k100-ai.link" in bound(card="k100-ai", tp=2).unverified
    assert "k100-ai.link" not in bound(card="k100-ai").unverified
    assert bound(card="rtx-4090").unverified == ()
    assert bound(card="rtx-4090", weights="fp8").unverified == ("rtx-4090.fp8_tflops",)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"card": "ascend-910b"}, "memory_bandwidth_gb_per_s of ascend-910b is unknown"),
        ({"card": "k100-ai", "weights": "fp8"}, "fp8_tflops of k100-ai is unknown"),
        ({"batch": 0}, "--batch 0: give a whole number of sequences from 1 to 1000000"),
        ({"context": -5}, "--context -5"),
        ({"tp": 3}, "--tp 3: does not divide the 32 attention heads; valid for qwen3-8b: 1, 2, 4"),
        ({"weights": ""}, "--weights '' is no weight format"),
    ],
)
def test_bad_input_is_one_line_with_value_and_way_out(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(KilocardError, match=complaint):
        bound(**changes)  # type: ignore[arg-type]


def test_sweeps_agree_with_single_points() -> None:
    batch, context = np.array([1, 7, 64])[:, None], np.array([10, 5000])
    surface = decode_step_s("qwen3-30b-a3b", "h200-sxm", weights="fp8", batch=batch, context=context, tp=2)
    assert surface.shape == (3, 2)
    point = bound("qwen3-30b-a3b", "h200-sxm", weights="fp8", batch=np.int64(7), context=5000, tp=2)
    assert surface[1, 1] == pytest.approx(point.decode_step_s)
    with pytest.raises(KilocardError, match="at least 1"):
        decode_step_s("qwen3-8b", "h100-sxm", batch=[0, 1], context=1)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, object]:
    model = draw(st.sampled_from(MODELS))
    return {
        "model": model,
        "card": draw(st.sampled_from(CARDS)),
        "weights": draw(st.sampled_from(["bf16", "int8", "int4"])),
        "kv": draw(st.sampled_from(["bf16", "fp8"])),
        "batch": draw(st.integers(1, 2048)),
        "context": draw(st.integers(1, 10**6)),
        "tp": draw(st.sampled_from(valid_tensor_parallel(facts.model(model)))),
    }


@given(cases())
def test_bounds_are_consistent(case: dict[str, object]) -> None:
    result = bound(**case)  # type: ignore[arg-type]
    assert result.decode_step_s == max(result.decode_memory_s, result.decode_compute_s) > 0
    assert result.prefill_s == max(result.prefill_memory_s, result.prefill_compute_s) > 0
    assert result.decode_tokens_per_s * result.decode_step_s == pytest.approx(result.batch)
    assert (result.limited_by == "compute") == (result.decode_compute_s > result.decode_memory_s)
    parts = result.decode_weights_read_bytes + result.decode_kv_read_bytes + result.decode_state_bytes
    assert result.decode_bytes == pytest.approx(parts, abs=2)
    assert all(map(math.isfinite, (result.decode_step_s, result.prefill_s, result.decode_flops_per_byte)))
    json.dumps(result.as_dict(), allow_nan=False)


@given(cases(), st.integers(1, 2048))
def test_a_larger_batch_takes_longer_and_yields_more(case: dict[str, object], more: int) -> None:
    small, large = bound(**case), bound(**{**case, "batch": int(str(case["batch"])) + more})  # type: ignore[arg-type]
    assert large.decode_step_s >= small.decode_step_s
    if not facts.model(small.model).moe:
        assert large.decode_tokens_per_s >= small.decode_tokens_per_s * (1 - 1e-9)


@given(cases(), st.integers(1, 10**6))
def test_a_longer_context_takes_longer(case: dict[str, object], more: int) -> None:
    short, long = bound(**case), bound(**{**case, "context": int(str(case["context"])) + more})  # type: ignore[arg-type]
    assert long.decode_step_s >= short.decode_step_s
    assert long.prefill_s > short.prefill_s


@given(cases())
def test_more_cards_are_never_slower_before_collectives(case: dict[str, object]) -> None:
    result, single = bound(**case), bound(**{**case, "tp": 1})  # type: ignore[arg-type]
    tp = result.tensor_parallel
    assert single.decode_step_s / tp * (1 - 1e-9) <= result.decode_step_s <= single.decode_step_s * (1 + 1e-9)
    assert result.prefill_s <= single.prefill_s * (1 + 1e-9)
    assert (result.collective_s == 0) == (tp == 1)


@given(st.sampled_from(MODELS), st.integers(1, 10**5))
def test_experts_touched_lie_between_one_token_s_and_all(name: str, tokens: int) -> None:
    terms = step_terms(facts.model(name), WeightDtype.BF16, KvDtype.BF16)
    touched = float(terms.experts_touched(tokens))
    assert (
        terms.experts_per_token * (1 - 1e-9)
        <= touched
        <= min(terms.experts, tokens * terms.experts_per_token) + 1e-9
    )


def test_peaks_of_a_card() -> None:
    limits = peaks("h100-sxm", "fp8")
    assert (limits.bytes_per_s, limits.quantized_flops_per_s, limits.plain_flops_per_s) == (
        3.35e12,
        1979e12,
        989e12,
    )
