"""Chapter 9's exercises: when four bits win, when eight do, and what a sample proves."""

from __future__ import annotations

from kilocard.notebook.exercises.exercise import Exercise
from kilocard.roofline import Roofline, roofline

ANSWER_TOKENS = 20
SAMPLE = 200
CONFIDENCE = 0.95


def _bound(weights: str, batch: int, context: int) -> Roofline:
    return roofline("qwen3-8b", "h100-sxm", weights=weights, batch=batch, context=context)


def _crowd() -> float:
    return _bound("bf16", 64, 4096).decode_step_s / _bound("int4", 64, 4096).decode_step_s


def _summary_s(weights: str) -> float:
    bound = _bound(weights, 1, 8192)
    return bound.prefill_s + ANSWER_TOKENS * bound.decode_step_s


EXERCISES = (
    Exercise(
        "9.1",
        _crowd,
        "times",
        lambda it: (
            f"A step of 64 people at 4,096 tokens reads 38.7 GB of KV beside the weights, whatever those are "
            f"stored in: (16.4 + 38.7) ÷ (6.1 + 38.7) GB = {it:.2f}. The weights shrank by a factor of 2.7 "
            "and the step by less than a fifth. The next bits to take are the KV cache's: FP8 there "
            "does more."
        ),
        tolerance_ratio=0.04,
        mistakes=lambda: {
            "only the weights are counted": 16.4 / 6.1,
            "four bits are taken for a quarter": 4.0,
        },
    ),
    Exercise(
        "9.2",
        lambda: 1000 * (_summary_s("int4") - _summary_s("fp8")),
        "ms",
        lambda it: (
            f"FP8: {1000 * _summary_s('fp8'):.0f} ms, INT4: {1000 * _summary_s('int4'):.0f} ms, so INT4 is "
            f"{it:.0f} ms slower. Twenty tokens save a millisecond each with the smaller weights, and 8,192 "
            "tokens of prompt cost twice the arithmetic, since W4A16 multiplies in 16 bits. Whoever reads "
            "much and writes little buys arithmetic, not bandwidth: FP8."
        ),
        mistakes=lambda: {
            "decode is left out": 1000
            * (_bound("int4", 1, 8192).prefill_s - _bound("fp8", 1, 8192).prefill_s)
        },
    ),
    Exercise(
        "9.3",
        lambda: 100 * (1 - (1 - CONFIDENCE) ** (1 / SAMPLE)),
        "%",
        lambda it: (
            f"If a share p fails, 200 good ones in a row have probability (1 − p)²⁰⁰; that is 5 % at p = "
            f"{it:.2f} %. (The rule of three: 3 ÷ 200.) On a million answers a day it could still be "
            "15,000 that do not parse. And parsing is the least of it: compare the fields with the answers "
            "of the model that you replace."
        ),
        mistakes=lambda: {
            "one failure in the sample is taken as the limit": 100 / SAMPLE,
            "the confidence is taken for the share": 100 * (1 - CONFIDENCE),
        },
    ),
)
