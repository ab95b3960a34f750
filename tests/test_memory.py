"""The ledger: by hand for every model of the catalogue at every TP, and its laws."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard import facts
from kilocard.errors import KilocardError
from kilocard.facts.dtypes import KvDtype, WeightDtype
from kilocard.facts.parts import parameters
from kilocard.facts.sharding import valid_tensor_parallel
from kilocard.memory import Ledger, ledger

MODELS = sorted(facts.models())
CARDS = sorted(facts.cards())

KV_PER_RANK = {  # bytes a token in BF16 at TP 1, 2, 4, 8, worked out on paper; 0: refused
    "smollm2-135m": (23_040, 0, 0, 0),
    "random-qwen3-200m": (24_576, 12_288, 6_144, 3_072),
    "qwen3-8b": (147_456, 73_728, 36_864, 18_432),
    "qwen3-14b": (163_840, 81_920, 40_960, 20_480),
    "qwen3-32b": (262_144, 131_072, 65_536, 32_768),
    "qwen3-30b-a3b": (98_304, 49_152, 24_576, 24_576),
    "qwen3.5-27b": (65_536, 32_768, 16_384, 16_384),
    "qwen3.6-27b": (65_536, 32_768, 16_384, 16_384),
    "qwen3.8-27b": (65_536, 32_768, 16_384, 16_384),
    "llama-3.1-8b": (131_072, 65_536, 32_768, 16_384),
    "llama-3.1-70b": (327_680, 163_840, 81_920, 40_960),
    "deepseek-v3": (70_272, 70_272, 70_272, 70_272),
    "llama-2-7b": (524_288, 262_144, 131_072, 65_536),
    "llama-2-70b": (327_680, 163_840, 81_920, 40_960),
    "codellama-34b": (196_608, 98_304, 49_152, 24_576),
    "yi-34b": (245_760, 122_880, 61_440, 30_720),
    "qwen2.5-7b": (57_344, 28_672, 14_336, 0),
    "mistral-nemo": (163_840, 81_920, 40_960, 20_480),
    "mixtral-8x7b": (131_072, 65_536, 32_768, 16_384),
    "mixtral-8x22b": (229_376, 114_688, 57_344, 28_672),
    "llama-4-scout": (196_608, 98_304, 49_152, 24_576),
    "bloom-176b": (4_014_080, 2_007_040, 1_003_520, 501_760),
}


def hand_weights_per_rank(name: str, tp: int) -> int:
    """Weights of one rank from the published sizes, matrix by matrix, without the package's own counting."""
    match name:
        case "smollm2-135m":
            layer = 576 * 9 * 64 * 2 // tp + 2 * 576 * 3 * 64 // tp + 3 * 576 * 1536 // tp + 2 * 576
            return 30 * layer + 49152 * 576 // tp + 576
        case "qwen3-8b" | "qwen3-14b" | "qwen3-32b":
            hidden, heads, mlp, layers = {
                "qwen3-8b": (4096, 32, 12288, 36),
                "qwen3-14b": (5120, 40, 17408, 40),
                "qwen3-32b": (5120, 64, 25600, 64),
            }[name]
            attention = 2 * hidden * heads * 128 // tp + 2 * hidden * 128 * (8 // tp) + 2 * 128
            layer = attention + 3 * hidden * mlp // tp + 2 * hidden
            return layers * layer + 2 * 151936 * hidden // tp + hidden
        case "qwen3-30b-a3b":
            attention = 2 * 2048 * 4096 // tp + 2 * 2048 * 128 * max(1, 4 // tp) + 2 * 128
            experts = 128 * 2048 + 128 * 3 * 2048 * 768 // tp
            return 48 * (attention + experts + 2 * 2048) + 2 * 151936 * 2048 // tp + 2048
        case "qwen3.5-27b" | "qwen3.6-27b" | "qwen3.8-27b":
            mlp = 3 * 5120 * 17408 // tp + 2 * 5120
            full = (2 + 1) * 5120 * 24 * 256 // tp + 2 * 5120 * 256 * max(1, 4 // tp) + 2 * 256
            linear = (
                5120 * (10240 + 6144 + 2 * 48) // tp
                + 6144 * 5120 // tp
                + 10240 * 4 // tp
                + 2 * 48 // tp
                + 128
            )
            return 64 * mlp + 16 * full + 48 * linear + 2 * 248320 * 5120 // tp + 5120
        case "llama-2-7b":
            layer = 4 * 4096 * 4096 // tp + 3 * 4096 * 11008 // tp + 2 * 4096
            return 32 * layer + 2 * 32000 * 4096 // tp + 4096
        case "llama-2-70b" | "codellama-34b" | "yi-34b" | "mistral-nemo":
            hidden, heads, mlp, layers, vocabulary = {
                "llama-2-70b": (8192, 64, 28672, 80, 32000),
                "codellama-34b": (8192, 64, 22016, 48, 32000),
                "yi-34b": (7168, 56, 20480, 60, 64000),
                "mistral-nemo": (5120, 32, 14336, 40, 131072),
            }[name]
            attention = 2 * hidden * heads * 128 // tp + 2 * hidden * 1024 // tp
            layer = attention + 3 * hidden * mlp // tp + 2 * hidden
            return layers * layer + 2 * vocabulary * hidden // tp + hidden
        case "random-qwen3-200m":
            attention = 2 * 1024 * 16 * 64 // tp + 2 * 1024 * 8 * 64 // tp
            layer = attention + 3 * 1024 * 3072 // tp + 2 * 1024 + 2 * 64
            return 12 * layer + 49152 * 1024 // tp + 1024
        case "bloom-176b":
            attention = 4 * 14336 * 14336 // tp + 3 * 14336 // tp
            layer = attention + 2 * 14336 * 57344 // tp + 2 * 14336
            return 70 * layer + 250880 * 14336 // tp + 14336
        case "qwen2.5-7b":
            attention = 2 * 3584 * 3584 // tp + 2 * 3584 * 512 // tp + (3584 + 2 * 512) // tp
            layer = attention + 3 * 3584 * 18944 // tp + 2 * 3584
            return 28 * layer + 2 * 152064 * 3584 // tp + 3584
        case "mixtral-8x7b" | "mixtral-8x22b":
            hidden, heads, mlp, layers, vocabulary = {
                "mixtral-8x7b": (4096, 32, 14336, 32, 32000),
                "mixtral-8x22b": (6144, 48, 16384, 56, 32768),
            }[name]
            attention = 2 * hidden * heads * 128 // tp + 2 * hidden * 1024 // tp
            layer = attention + 8 * hidden + 8 * 3 * hidden * mlp // tp + 2 * hidden
            return layers * layer + 2 * vocabulary * hidden // tp + hidden
        case "llama-4-scout":
            attention = 2 * 5120 * 5120 // tp + 2 * 5120 * 1024 // tp
            experts = 16 * 5120 + (16 + 1) * 3 * 5120 * 8192 // tp
            return 48 * (attention + experts + 2 * 5120) + 2 * 202048 * 5120 // tp + 5120
        case "llama-3.1-8b" | "llama-3.1-70b":
            hidden, heads, mlp, layers = {
                "llama-3.1-8b": (4096, 32, 14336, 32),
                "llama-3.1-70b": (8192, 64, 28672, 80),
            }[name]
            layer = (
                2 * hidden * heads * 128 // tp
                + 2 * hidden * 128 * (8 // tp)
                + 3 * hidden * mlp // tp
                + 2 * hidden
            )
            return layers * layer + 2 * 128256 * hidden // tp + hidden
        case "deepseek-v3":
            down = 7168 * 1536 + 7168 * 576 + 1536 + 512
            up = 1536 * 128 * 192 // tp + 512 * 128 * 256 // tp + 128 * 128 * 7168 // tp
            moe = 256 * 7168 + 257 * 3 * 7168 * 2048 // tp
            body = 61 * (down + up + 2 * 7168) + 3 * 3 * 7168 * 18432 // tp + 58 * moe
            return body + 2 * 129280 * 7168 // tp + 7168
    raise AssertionError(name)


def book(model: str = "qwen3-8b", card: str = "h100-sxm", **changes: object) -> Ledger:
    settings: dict[str, object] = {"context": 4096, "concurrency": 32, **changes}
    return ledger(model, card, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tp", range(1, 9))
def test_every_model_at_every_tp_agrees_with_the_sum_on_paper(name: str, tp: int) -> None:
    on_paper = KV_PER_RANK[name][(1, 2, 4, 8).index(tp)] if tp in (1, 2, 4, 8) else 0
    on_paper = {("smollm2-135m", 3): 7_680, ("bloom-176b", 7): 573_440}.get((name, tp), on_paper)
    if not on_paper:
        with pytest.raises(KilocardError, match=f"--tp {tp}: .*valid for {name}"):
            book(name, "h200-sxm", tp=tp)
        return
    result = book(name, "h200-sxm", tp=tp)
    assert result.kv_bytes_per_token_per_rank == on_paper
    assert result.kv_bytes_per_token == KV_PER_RANK[name][0]
    assert result.kv_bytes == 32 * 4096 * on_paper
    assert result.weights_bytes_per_rank == 2 * hand_weights_per_rank(name, tp)
    assert result.weights_bytes == 2 * hand_weights_per_rank(name, 1)
    state = 48 * (48 * 128 * 128 * 4 + 10240 * 3 * 2) if name.startswith("qwen3.") else 0
    assert result.state_bytes_per_sequence == state
    assert result.state_bytes == 32 * state // tp


def test_total_is_the_sum_of_its_lines_and_decides_the_fit() -> None:
    result = book("qwen3.6-27b", "h100-sxm")
    lines = (
        result.weights_bytes_per_rank
        + result.kv_bytes
        + result.state_bytes
        + result.activation_bytes
        + result.engine_overhead_bytes
    )
    assert result.total_bytes == lines
    assert result.usable_bytes == 72_000_000_000
    assert result.headroom_bytes == result.usable_bytes - result.total_bytes
    assert result.fits
    assert not book("qwen3.6-27b", "rtx-4090").fits
    assert not book("qwen3-32b", "h100-sxm").fits


def test_quantised_weights_show_their_two_kinds() -> None:
    result = book(weights="int4")
    sixteen_bit = 2 * 2 * 151936 * 4096 + 2 * (36 * (2 * 4096 + 256) + 4096)
    assert result.weights_unquantized_bytes == sixteen_bit
    linear = result.parameters - sixteen_bit // 2
    assert result.weights_quantized_bytes == pytest.approx(linear * 4.15625 / 8, abs=8)
    assert result.weights_bytes == result.weights_quantized_bytes + sixteen_bit
    assert book().weights_quantized_bytes == 0


def test_kv_at_8_bit_is_half_and_the_default_is_bf16() -> None:
    assert (
        book(kv="fp8").kv_bytes * 2
        == book(kv="int8").kv_bytes * 2
        == book().kv_bytes
        == book(kv="bf16").kv_bytes
    )


def test_copies_of_kv_are_said() -> None:
    assert book("qwen3-30b-a3b", tp=8).kv_copies == 2
    assert "held by 2 ranks" in " ".join(book("qwen3-30b-a3b", tp=8).notes)
    assert book("deepseek-v3", tp=8).kv_copies == 8
    assert book("qwen3-8b", tp=8).kv_copies == 1


def test_what_rests_on_unverified_facts_says_so() -> None:
    assert book().unverified == ()
    assert "qwen3.8-27b.linear_attention" in book("qwen3.8-27b").unverified


def test_a_driver_s_own_figure_of_memory_replaces_the_datasheet_s() -> None:
    assert book(memory_gb=85.52).max_kv_tokens > book().max_kv_tokens
    assert book(memory_gb=85.52).memory_bytes == 85_520_000_000


def test_a_context_beyond_the_model_s_is_said() -> None:
    assert "exceeds the model's 40960" in " ".join(book(context=50_000).notes)


def test_the_result_is_plain_json() -> None:
    assert json.loads(json.dumps(book().as_dict()))["weights_bytes"] == 16_381_470_720


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"context": -1}, "--context -1: give a whole number of tokens from 1 to 1000000000"),
        ({"context": 10**30}, "--context 1000000000000000000000000000000: "),
        ({"context": 1.5}, r"--context 1\.5: "),
        ({"context": True}, "--context True: "),
        ({"concurrency": 0}, "--concurrency 0: give a whole number of sequences"),
        ({"max_num_batched_tokens": 0}, "--max-num-batched-tokens 0"),
        ({"gpu_memory_utilization": 1.1}, r"--gpu-memory-utilization 1\.1"),
        ({"gpu_memory_utilization": float("nan")}, "--gpu-memory-utilization nan"),
        ({"gpu_memory_utilization": 1e-300}, "give an engine 1000000 or more"),
        ({"memory_gb": -80}, "--memory-gb -80"),
        ({"weights": "fp9"}, r"--weights 'fp9' is no weight format: did you mean 'fp8'\?"),
        ({"kv": "int4"}, r"--kv 'int4' is no KV format: did you mean 'int8'\?"),
        ({"model": "qwen3-9b"}, "unknown model 'qwen3-9b': did you mean"),
        ({"card": "h100"}, "unknown card 'h100': did you mean 'h100-sxm'"),
        ({"tp": 2.0}, r"--tp 2\.0: no whole number"),
    ],
)
def test_bad_input_is_one_line_with_value_and_way_out(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(KilocardError, match=complaint):
        book(**changes)  # type: ignore[arg-type]


@st.composite
def cases(draw: st.DrawFn) -> dict[str, object]:
    model = draw(st.sampled_from(MODELS))
    return {
        "model": model,
        "card": draw(st.sampled_from(CARDS)),
        "weights": draw(st.sampled_from(list(WeightDtype))).value,
        "kv": draw(st.sampled_from(list(KvDtype))).value,
        "context": draw(st.integers(1, 10**6)),
        "concurrency": draw(st.integers(1, 4096)),
        "tp": draw(st.sampled_from(valid_tensor_parallel(facts.model(model)))),
        "max_num_batched_tokens": draw(st.integers(1, 65536)),
    }


@given(cases(), st.integers(1, 10**6), st.integers(1, 4096))
def test_more_context_or_concurrency_never_takes_less(
    case: dict[str, object], context: int, concurrency: int
) -> None:
    less, more = book(**case), book(**{**case, "context": int(str(case["context"])) + context})  # type: ignore[arg-type]
    assert more.total_bytes > less.total_bytes
    assert more.max_concurrency <= less.max_concurrency
    busier = book(**{**case, "concurrency": int(str(case["concurrency"])) + concurrency})  # type: ignore[arg-type]
    assert busier.total_bytes > less.total_bytes
    assert busier.max_kv_tokens <= less.max_kv_tokens


@given(cases())
def test_fits_says_that_the_tokens_fit_the_room(case: dict[str, object]) -> None:
    result = book(**case)  # type: ignore[arg-type]
    assert result.max_kv_tokens >= 0
    assert result.fits == (result.headroom_bytes >= 0)
    if result.max_kv_tokens:
        assert result.fits == (result.concurrency * result.context_tokens <= result.max_kv_tokens)
        assert result.fits == (result.concurrency <= result.max_concurrency)


@given(cases())
def test_ranks_together_hold_the_whole(case: dict[str, object]) -> None:
    result, tp = book(**case), int(str(case["tp"]))  # type: ignore[arg-type]
    assert result.kv_bytes_per_token_per_rank * tp == result.kv_bytes_per_token * result.kv_copies
    assert result.weights_bytes_per_rank * tp >= result.weights_bytes - tp * 64
    assert result.state_bytes_per_sequence_per_rank * tp == result.state_bytes_per_sequence
    single = book(**{**case, "tp": 1})  # type: ignore[arg-type]
    assert (
        result.total_bytes - result.engine_overhead_bytes <= single.total_bytes - single.engine_overhead_bytes
    )


@given(st.sampled_from(MODELS))
def test_fewer_bits_take_fewer_bytes(name: str) -> None:
    sizes = [book(name, weights=weights).weights_bytes for weights in ("fp32", "bf16", "int8", "int4")]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 4 * parameters(facts.model(name))


def test_a_pipeline_deals_out_layers_and_its_ends_hold_the_tables() -> None:
    whole = book("llama-3.1-70b", "h100-sxm", context=2048, concurrency=8)
    two = book("llama-3.1-70b", "h100-sxm", context=2048, concurrency=8, pp=2)
    table = 128_256 * 8192 * 2
    assert two.weights_bytes_per_rank == pytest.approx(
        (whole.weights_bytes - 2 * table) / 2 + table, rel=1e-4
    )
    assert two.kv_bytes == whole.kv_bytes // 2
    assert two.pipeline_parallel == 2


def test_a_middle_stage_with_one_layer_more_can_be_the_fullest() -> None:
    four = book("deepseek-v3", "h200-sxm", weights="fp8", context=2048, concurrency=1, pp=4)
    whole = book("deepseek-v3", "h200-sxm", weights="fp8", context=2048, concurrency=1)
    assert four.kv_bytes == -(-whole.kv_bytes * 16 // 61)
    with pytest.raises(KilocardError, match="62 stages of 61 layers"):
        book("deepseek-v3", "h200-sxm", context=1, concurrency=1, pp=62)
