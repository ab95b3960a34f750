"""Exercises of the chapters on the scheduler and on paged KV: each answer by the formula of its chapter."""

from __future__ import annotations

import math

from kilocard import facts
from kilocard.memory import ledger
from kilocard.notebook.exercises.exercise import Exercise
from kilocard.roofline import roofline


def _room_tokens() -> int:
    return ledger("llama-3.1-8b", "h100-sxm", context=1, concurrency=1).max_kv_tokens


def _back_ms(link: str) -> float:
    rate = facts.link(link).one_way_bytes_per_s
    assert rate, "the catalogue has its rate"
    return 1000 * 8000 * facts.model("llama-3.1-8b").kv_bytes_per_token(facts.KvDtype.BF16) / rate


def _again_ms() -> float:
    return 1000 * roofline("llama-3.1-8b", "h100-sxm", batch=1, context=8000).prefill_s


BATCHING = (
    Exercise(
        "6.1",
        lambda: 8 * 300 / (7 * 20 + 300),
        "times",
        lambda it: (
            "Static: the batch lasts 300 steps of 8 seats, 2,400 places, of which 7 × 20 + 300 = 440 hold "
            f"work. 2,400 ÷ 440 = {it:.2f}. It is the bound for the best case, where somebody always waits: "
            "the one essay sets the pace of seven that have long been answered."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {
            "the longest is divided by the shortest": 300 / 20,
            "the mean leaves the essay out": 8 * 300 / (7 * 20),
        },
    ),
    Exercise(
        "6.2",
        lambda: float(math.ceil(4000 / (512 - 100))),
        "steps",
        lambda it: (
            "Those who run come first: 100 of the 512 tokens are theirs, so a step reads 412 of the prompt, "
            f"and 4,000 ÷ 412 = 9.7, so {it:.0f} steps. A budget just over max_num_seqs leaves prompts "
            "almost nothing: the newcomer starves so that the others do not stutter."
        ),
        tolerance_ratio=0.04,
        mistakes=lambda: {"the running requests' own tokens are left out": float(math.ceil(4000 / 512))},
    ),
    Exercise(
        "6.3",
        lambda: 10 + 2048 / 20_000 * 1000,
        "ms",
        lambda it: (
            "The step reads 2,048 tokens, 2,048 ÷ 20,000 = 102 ms, on top of the 10 ms that it took "
            f"anyway: {it:.0f} ms. An SLO on P99 of the gap between tokens is an upper limit on the budget: "
            "100 ms would ask for at most 1,800."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {
            "the whole prompt of 8,000 is taken for one step": 10 + 8000 / 20_000 * 1000,
            "the decode step goes on beside it, in 10 ms": 10.0,
        },
    ),
)

PAGES = (
    Exercise(
        "7.1",
        lambda: float(_room_tokens() // 2000),
        "requests",
        lambda it: (
            f"The ledger leaves {_room_tokens():,} tokens, and 2,000 each make {it:.0f} requests. The answer "
            "counts with the end of a request, for that is when the cache is fullest; on average it holds "
            "less, so a cap between the two trades a rare preemption against a fuller batch."
        ),
        tolerance_ratio=0.03,
        mistakes=lambda: {
            "only the prompt is counted, as the scheduler does": float(_room_tokens() // 1500),
            "half of each answer is counted, its mean: enough as a rule, but not for sure": float(
                _room_tokens() // 1750
            ),
            "max_model_len is taken as reserved": float(_room_tokens() // 8192),
        },
    ),
    Exercise(
        "7.2",
        lambda: 256 / 200,
        "times",
        lambda it: (
            f"200 tokens take 2 blocks of 128, room for 256: {it:.2f} times. With blocks of 16: 208, 1.04 "
            "times. The waste is under one block a request, whatever came before it; it does not grow with "
            "the days."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {
            "half a block is added, the mean over many lengths": 264 / 200,
            "blocks of 16 are taken": 208 / 200,
        },
    ),
    Exercise(
        "7.3",
        lambda: _again_ms() / _back_ms("pcie5-x16"),
        "times",
        lambda it: (
            f"Back over the link: 8,000 × 131,072 bytes at 64 GB/s one way are {_back_ms('pcie5-x16'):.0f} "
            f"ms. Computed again, at the datasheet's rate: {_again_ms():.0f} ms. {it:.1f} times, and "
            "more on a real engine, which reaches some 60 % of that rate. It pays where the same tokens come "
            "back; for tokens that nobody asks for again, the copy out is wasted too."
        ),
        tolerance_ratio=0.05,
        mistakes=lambda: {"both directions of the link are taken": 2 * _again_ms() / _back_ms("pcie5-x16")},
    ),
    Exercise(
        "7.4",
        lambda: (1500 + 300) / 20_000,
        "s",
        lambda it: (
            "What it had read and what it had written is computed again, 1,800 tokens at 20,000 a second: "
            f"{it:.2f} s of the card. The user's pause is longer: first the others must leave enough blocks "
            "for all 1,800 at once, and that takes as long as their answers do."
        ),
        mistakes=lambda: {
            "only the prompt is computed again": 1500 / 20_000,
            "the 300 tokens are written again one by one, at 10 ms each": 1500 / 20_000 + 3.0,
        },
    ),
)

EXERCISES = (*BATCHING, *PAGES)
