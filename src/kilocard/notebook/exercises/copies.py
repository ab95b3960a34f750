"""Exercises on copies: what they hold twice, what a death takes along, who spreads the requests."""

from __future__ import annotations

from kilocard.memory import ledger
from kilocard.notebook.exercises.exercise import Exercise

THERE = 0.99
CARDS, GROUP = 8, 2
REPLICAS, SEATS = 8, 32
ENGINE_START_S, TOKENS_PER_S = 240, 2700


def _repeated_gb() -> float:
    account = ledger("qwen3.8-27b", "h100-sxm", weights="fp8", context=2048, concurrency=1)
    return (CARDS - 1) * account.weights_bytes / 1e9


def _all_groups_there_percent() -> float:
    return 100 * THERE**CARDS


def _lost_tokens() -> float:
    return float(ENGINE_START_S * TOKENS_PER_S)


EXERCISES = (
    Exercise(
        "2.5.1",
        _repeated_gb,
        "GB",
        lambda it: (
            f"One copy in FP8 is {it / (CARDS - 1):.1f} GB, embedding and output left in BF16. Eight copies "
            f"hold it eight times, seven of them again: 7 × {it / (CARDS - 1):.1f} = {it:.0f} GB of the 640. "
            "Whether you miss them as cache is what the sweep says, not the ledger."
        ),
        tolerance_ratio=0.06,
        mistakes=lambda: {
            "all eight are counted, and one of them is needed": _repeated_gb() * CARDS / (CARDS - 1),
            "the weights are counted in BF16": 7 * 53.8,
        },
    ),
    Exercise(
        "2.5.2",
        _all_groups_there_percent,
        "%",
        lambda it: (
            "Every group needs both of its cards, so all four groups need all eight: 0.99^8 = "
            f"{it:.1f} %. It is the same for eight copies. The difference is what is left at other times: "
            "a dead card takes a quarter of the fleet here, an eighth with copies, all of it with one group "
            "of eight."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "a group counts as one card": 100 * THERE ** (CARDS // GROUP),
            "one group only is asked for": 100 * THERE**GROUP,
        },
    ),
    Exercise(
        "2.5.3",
        _lost_tokens,
        "tokens",
        lambda it: (
            f"A copy that is away for 240 s does not write 240 × 2,700 = {it:,.0f} tokens. What broke off is "
            "small beside it: 32 answers, on average half written, some 5,000 tokens. So shorten the start "
            "(weights on local disk, compiled kernels kept) before you save half-written answers."
        ),
        tolerance_ratio=0.05,
        mistakes=lambda: {
            "the whole fleet is counted": REPLICAS * _lost_tokens(),
            "the answers that broke off are counted and not the time": SEATS * 150.0,
        },
    ),
    Exercise(
        "2.5.4",
        lambda: float(REPLICAS * SEATS),
        "requests",
        lambda it: (
            f"--max-num-seqs is each rank's own: 8 × 32 = {it:.0f} run at once, and the 257th waits in the "
            "line of one rank. Someone who meant 32 in all gets eight times the batch, and a TPOT to match."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "the limit is taken for the whole server's": float(SEATS),
            "ranks and seats are taken for one another's divisor": SEATS / REPLICAS,
        },
    ),
)
