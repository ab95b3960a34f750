"""How long does a plan take, and does its search miss anything? On a large and on a small space.

    python benchmarks/search.py            # some five minutes; wants an otherwise idle box
    python benchmarks/search.py --quick    # the small space alone, under a minute; judges nothing

Large: a million tokens/s of an 8B, over three cards, three kinds of weights, four cuts, ten caps, four
budgets and two policies; the search, then the winner in full. Small: every candidate is sized by itself, and
the search has to find none dearer than the cheapest of them. The bound in the same run is the time that
sizing all takes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from result import now, parser_of, stamp, tell

from kilocard.planning.candidate import candidates
from kilocard.planning.search import evaluated, search, verified
from kilocard.planning.trial import Trials
from kilocard.specs.target import Target, target_from

HERE = Path(__file__).parent
RESULT = HERE / "results" / "search.json"
QUICK_RESULT = HERE.parent / "_build" / "benchmarks" / "search.json"

TARGET: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "weights": ["bf16", "fp8", "int4"],
    "cards": [
        {"card": "h100-sxm", "price_per_hour": 3.0},
        {"card": "a100-sxm-80gb", "price_per_hour": 1.5},
        {"card": "rtx-4090", "price_per_hour": 0.5},
    ],
    "traffic": {"output_tokens_per_s": 1_000_000},
    "prompt_tokens": 512,
    "output_tokens": {"kind": "lognormal", "mean_tokens": 200, "cv": 0.8, "most_tokens": 1500},
    "slo": {"ttft_p99_s": 0.5, "tpot_p99_s": 0.03},
    "policies": ["least-delay", "least-active"],
}
SMALL = {
    "weights": ["bf16"],
    "policies": ["least-delay"],
    "traffic": {"output_tokens_per_s": 50_000},
    "degrees": [1, 2],
}
LEAST_CANDIDATES, MOST_S = 1000, 120.0


def large() -> dict[str, Any]:
    """The whole of a search, and its winner in full."""
    target = target_from(TARGET)
    trials = Trials(target)
    began = time.perf_counter()
    found = search(target, trials)
    searched_s = time.perf_counter() - began
    option, seen = verified(target, trials, found.best)
    return {
        "candidates": found.considered,
        "ruled_out": found.ruled_out,
        "simulations": trials.simulated,
        "search_s": searched_s,
        "with_the_winner_in_full_s": time.perf_counter() - began,
        "winner": option.candidate.label,
        "cards": option.cards,
        "ttft_p99_s": seen.ttft_s.p99,
        "tpot_p99_s": seen.tpot_s.p99,
    }


def small() -> dict[str, Any]:
    """Search, then everything."""
    target: Target = target_from({**TARGET, **SMALL})
    tried = [it for it in candidates(target) if it.max_num_seqs in (32, 128, 256)]
    began = time.perf_counter()
    found = search(target, Trials(target), tried)
    searched_s = time.perf_counter() - began
    trials = Trials(target)
    prices = [its.price_per_hour for it in tried if (its := evaluated(target, trials, it))]
    return {
        "candidates": len(tried),
        "search_s": searched_s,
        "all_s": time.perf_counter() - began - searched_s,
        "found": found.best.price_per_hour,
        "cheapest": min(prices),
    }


def misses(told: dict[str, Any]) -> list[str]:
    """The bars that are missed."""
    checks = {
        "enough candidates": told["large"]["candidates"] >= LEAST_CANDIDATES,
        "two minutes": told["large"]["with_the_winner_in_full_s"] <= MOST_S,
        "never beaten": told["small"]["found"] <= told["small"]["cheapest"],
    }
    return [name for name, holds in checks.items() if not holds]


def lines_of(told: dict[str, Any]) -> list[str]:
    """The result in words."""
    few = told["small"]
    lines = [
        f"of {few['candidates']} candidates the search finds {few['found']:.2f} an hour "
        f"in {few['search_s']:.1f} s; the cheapest of all is {few['cheapest']:.2f}, "
        f"after {few['all_s']:.1f} s"
    ]
    if "large" in told:
        it = told["large"]
        lines.append(
            f"{it['candidates']:,} candidates in {it['search_s']:.1f} s, {it['simulations']} simulations, "
            f"the winner in full after {it['with_the_winner_in_full_s']:.1f} s: {it['cards']} cards, "
            f"{it['winner']}"
        )
    return lines


def main() -> None:
    """Measure, show, keep, judge."""
    options = parser_of(__doc__, "the small space alone, under a minute; judges nothing").parse_args()
    started_at = now()
    target = target_from({**TARGET, **SMALL})
    Trials(target, fleet=2).highest(next(iter(candidates(target))))  # compiles the loop
    told: dict[str, Any] = {"small": small()}
    if not options.quick:
        told["large"] = large()
    missed = [] if options.quick else misses(told)
    result = {"stamp": stamp("measured", started_at, quick=options.quick), **told, "missed": missed}
    tell(result, lines_of(told), QUICK_RESULT if options.quick else RESULT, options.json)
    sys.exit(f"Kilocard misses a bar: {missed}" if missed else 0)


if __name__ == "__main__":
    main()
