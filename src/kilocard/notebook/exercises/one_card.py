"""Part 1's exercises: each answer is computed by the functions that the chapter uses."""

from __future__ import annotations

from kilocard.facts import KvDtype, WeightDtype, card, model
from kilocard.memory import ledger
from kilocard.notebook.exercises.exercise import Exercise
from kilocard.roofline import roofline


def _bound_ms(weights: str, batch: int, name: str = "qwen3.8-27b", on: str = "k100-ai") -> float:
    return 1000 * roofline(name, on, weights=weights, batch=batch, context=2048).decode_step_s


def _rank_of_four_ms() -> float:
    bound = roofline("llama-3.1-70b", "h100-sxm", weights="bf16", batch=1, context=1024, tp=4)
    return 1000 * bound.decode_step_s


def _kv_tokens(tp: int) -> float:
    return float(
        ledger("llama-3.1-70b", "h100-sxm", weights="fp8", context=4096, concurrency=1, tp=tp).max_kv_tokens
    )


def _missing_gb() -> float:
    account = ledger("llama-3.1-70b", "h100-sxm", weights="fp8", context=1, concurrency=1)
    return (account.weights_bytes - account.usable_bytes) / 1e9


def _kv_capacity() -> float:
    return 2**30 / model("smollm2-135m").kv_bytes_per_token(KvDtype.BF16)


def _ridge_8b() -> float:
    h100 = card("h100-sxm")
    return h100.peak_flops_per_s(WeightDtype.BF16) / h100.memory_bandwidth_bytes_per_s


TWO_SPECIES = (
    Exercise(
        "1.1",
        lambda: _bound_ms("int4", 1),
        "ms",
        lambda it: (
            "One step reads the weights, 17.8 GB in INT4 with its 16-bit embeddings, and the request's own "
            f"cache and state: {it:.1f} ms at 0.9 TB/s. The measured 22 ms are {100 * it / 22:.0f} % of the "
            "bound's speed. The card does what it can for one person; its arithmetic is idle. A second "
            "card would be as idle. Batch first."
        ),
        tolerance_ratio=0.05,
        mistakes=lambda: {
            "the measured TPOT is given back": 22.0,
            "weights are taken as 13.5 GB, with the embeddings in INT4 too": 1000 * 13.5e9 / 0.9e12,
            "weights are taken in BF16": _bound_ms("bf16", 1),
        },
    ),
    Exercise(
        "1.2",
        _ridge_8b,
        "tokens",
        lambda it: (
            "A weight of 2 bytes does 2 FLOP for each token in the step, so the step's intensity is the "
            f"number of tokens in it, and the ridge is 989 TFLOP/s ÷ 3.35 TB/s = {it:.0f}. A batch of "
            "decodes needs that many requests; one prompt of that length gets there alone. KV, which is "
            "shared by nobody, moves the real crossing further out."
        ),
        mistakes=lambda: {
            "one byte a weight is assumed": _ridge_8b() / 2,
            "a factor of two is counted twice": _ridge_8b() * 2,
        },
    ),
    Exercise(
        "1.3",
        lambda: (
            1000
            * roofline("llama-3.1-70b", "h100-sxm", weights="bf16", batch=1, context=1024, tp=4).decode_step_s
        ),
        "ms",
        lambda it: (
            f"Each of four ranks reads a quarter of 141 GB, about 35 GB, at 3.35 TB/s: {it:.1f} ms, before "
            "the ranks have exchanged anything. That exchange is Part 2."
        ),
        mistakes=lambda: {"one card reads all of it": 4 * _rank_of_four_ms()},
    ),
)

LEDGER = (
    Exercise(
        "2.1",
        _missing_gb,
        "GB",
        lambda it: (
            "In FP8 the 70B weighs 72.7 GB, since embeddings and head stay at 16 bits, and the engine may "
            f"use 0.9 × 80 = 72 GB: {it:.2f} GB are missing, before the engine's own memory and before one "
            "token of cache. A model's name is a size in parameters, not in bytes."
        ),
        mistakes=lambda: {"every parameter is charged one byte (then 1.4 GB would be left)": 72 - 70.55},
    ),
    Exercise(
        "2.2",
        lambda: _kv_tokens(2),
        "tokens",
        lambda it: (
            "Each rank holds 36.3 GB of weights of its 72 GB, and 4 of the 8 KV heads: 163,840 bytes a "
            f"token. About {it:,.0f} tokens. One card had none: halving the weights frees nearly half of "
            "each card, and halving the heads makes every token half as dear."
        ),
        mistakes=lambda: {"a rank is charged for all KV heads": _kv_tokens(2) / 2},
    ),
    Exercise(
        "2.3",
        lambda: 1.0,
        "times",
        lambda it: (
            "It stays as it is, a factor of 1. A paged cache hands out blocks as tokens come; "
            "max_model_len is a promise to refuse what is longer, and a check at the start that one such "
            "request would fit. What grows is the worst case: fewer requests are sure to fit at once."
        ),
        mistakes=lambda: {
            "max_model_len is taken as a reservation": 4.0,
            "no change is written as 0; as a factor it is 1": 0.0,
        },
    ),
)

FIRST_ENGINE = (
    Exercise(
        "3.1",
        lambda: float(_kv_capacity() // 4096),
        "requests",
        lambda it: (
            f"2³⁰ bytes ÷ 23,040 = 46,603 tokens, and 46,603 ÷ 4,096 = 11.4: {it:.0f} requests. "
            "max_num_seqs is 32, so with long requests the cache, not the cap, is the limit."
        ),
        tolerance_ratio=0.04,
        mistakes=lambda: {"the cap max_num_seqs is taken for the limit": 32.0},
    ),
    Exercise(
        "3.2",
        lambda: 6.0,
        "s",
        lambda it: (
            f"The first 32 run at once and finish after {it:.0f} s, together; only then do the other 32 "
            "start. The last one waits one whole generation, and nothing in its logs says why."
        ),
        mistakes=lambda: {
            "each request is thought to wait for all others": 12.0,
            "all 64 are thought to run": 0.0,
        },
    ),
    Exercise(
        "3.3",
        lambda: _kv_capacity() / 512,
        "requests",
        lambda it: (
            f"46,603 tokens ÷ 512 = {it:.0f} requests. Beyond them the engine preempts: it throws a running "
            "request out and computes it again later. The cap of 256 would turn a visible queue into "
            "invisible rework."
        ),
    ),
)

LOAD = (
    Exercise(
        "4.1",
        lambda: 60 * 8 / (200 * 0.070),
        "requests a minute",
        lambda it: (
            f"Each of eight takes 200 × 70 ms = 14 s, so 8 ÷ 14 s = {8 / 14:.2f} a second, {it:.0f} a "
            "minute. At four: 4 ÷ 7 s, the same. Eight people wait twice as long for the same output."
        ),
        mistakes=lambda: {
            "the TPOT of four requests is used": 60 * 8 / (200 * 0.035),
            "only one slot is counted": 60 / 14,
        },
    ),
    Exercise(
        "4.2",
        lambda: (190 * 0.8 + 10 * 15) / 200,
        "s",
        lambda it: (
            f"(190 × 0.8 + 10 × 15) ÷ 200 = {it:.2f} s: a latency that not one of the two hundred requests "
            "had. P50 is 0.8 s and P99 is 15 s; both are true of somebody."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {"the two latencies are averaged without their numbers": (0.8 + 15) / 2},
    ),
    Exercise(
        "4.3",
        lambda: 95 / 40,
        "times",
        lambda it: (
            f"300 tokens take 300 × TPOT, so the factor is 95 ÷ 40 = {it:.2f}: from 12 s to 28.5 s, for 12 "
            "% more tokens. The SLO allows it. Whether the users do is the question that the SLO was to "
            "answer."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {"the throughput's 12 % is taken for the latency's": 1.12},
    ),
)

MORE_THAN_ONE = (
    Exercise(
        "5.1",
        lambda: 8 / 14 * 300,
        "people",
        lambda it: (
            f"The card finishes 8 ÷ 14 s = 0.57 answers a second. In 300 s that is {it:.0f} answers, so "
            "that many people can each ask once in five minutes. 'Several hundred online' holds if they "
            "ask every ten minutes or so, and type meanwhile."
        ),
        mistakes=lambda: {
            "only the eight in flight are counted": 8.0,
            "one request at a time is served": 300 / 14,
        },
    ),
    Exercise(
        "5.2",
        lambda: 30 * 24 * 60 * (1 - 0.99) ** 2,
        "minutes a month",
        lambda it: (
            f"Both must be away at once: 1 % of 1 % of 43,200 minutes, so {it:.2f} of them, if their "
            "failures are independent and one can carry the load. A shared rack, a shared image or a shared "
            "rollout makes them dependent, and two half-loaded cards are not spare."
        ),
        mistakes=lambda: {
            "the second one adds nothing": 30 * 24 * 60 * 0.01,
            "the time away is halved, not squared": 30 * 24 * 60 * 0.005,
        },
    ),
)

EXERCISES = (*TWO_SPECIES, *LEDGER, *FIRST_ENGINE, *LOAD, *MORE_THAN_ONE)
