"""Exercises on layouts: which, and what they give."""

from __future__ import annotations

from kilocard.notebook.exercises.exercise import Exercise
from kilocard.notebook.layouts import judge
from kilocard.parallel import Layout, bubble_share


def _earns(degree: int) -> float:
    return judge("llama-3.1-8b", "h100-sxm").judged(Layout(degree)).output_tokens_per_s_per_card


EXERCISES = (
    Exercise(
        "2.1.1",
        lambda: 4.0,
        "cards",
        lambda it: (
            "Of 80 GB an engine takes 72. Two cards hold 141 ÷ 2 = 70.6 GB each: with 1.9 GB for the engine "
            "itself that is more than 72, before one token of cache. Three do not divide 64 heads. So "
            f"{it:.0f}: 35.3 GB of weights each, and 35 for the cache."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {
            "the engine's own memory and the cache are left out": 2.0,
            "heads are cut into thirds": 3.0,
        },
    ),
    Exercise(
        "2.1.2",
        lambda: 100 * float(bubble_share(4, 8)),
        "%",
        lambda it: (
            "Four chunks in eight stages: the first leaves the last stage after 8 turns, the others one turn "
            f"later each, 11 turns in all, of which each stage works 4. 7 ÷ 11 = {it:.0f} % idle. A short "
            "prompt in a deep pipeline is the worst case; many prompts at once fill each other's gaps."
        ),
        tolerance_ratio=0.02,
        mistakes=lambda: {"the chunks that are working are counted": 100 * 4 / 11, "4 of 8 are": 50.0},
    ),
    Exercise(
        "2.1.3",
        lambda: _earns(1) / _earns(4),
        "times",
        lambda it: (
            f"A card alone earns {_earns(1):,.0f} tokens/s, a card of a group of four {_earns(4):,.0f}: "
            f"{it:.2f} times. The cards are the same eight, so the ratio of what each earns is the answer; "
            "the groups' larger caches do not make up for 64 allreduces a step."
        ),
        tolerance_ratio=0.05,
        mistakes=lambda: {"a group is compared with one copy": _earns(1) / (4 * _earns(4))},
    ),
    Exercise(
        "2.1.4",
        lambda: 12.5,
        "%",
        lambda it: (
            f"64 cards are asked for, 8 engines use one each: 8 ÷ 64 = {it} %. Kubernetes gives a pod what "
            "it asks for and nobody else; the engine takes the first card it sees. Nothing fails."
        ),
        tolerance_ratio=0.01,
        mistakes=lambda: {"TP 8 is assumed": 100.0},
    ),
)
