"""The search finds what trying all would find, and its bounds are bounds."""

from __future__ import annotations

from typing import Any

import pytest

from kilocard.errors import KilocardError
from kilocard.planning.candidate import Candidate, candidates
from kilocard.planning.search import evaluated, search, verified
from kilocard.planning.trial import STEPS, Trials, highest_near, highest_where, meets
from kilocard.specs.target import Target, target_from

TARGET: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "cards": [{"card": "h100-sxm", "price_per_hour": 3}, {"card": "a100-sxm-80gb", "price_per_hour": 1.5}],
    "traffic": {"output_tokens_per_s": 50_000},
    "prompt_tokens": 512,
    "output_tokens": {"kind": "lognormal", "mean_tokens": 200, "cv": 0.8, "most_tokens": 1500},
    "slo": {"ttft_p99_s": 0.5, "tpot_p99_s": 0.03},
}


def a_target(**changes: Any) -> Target:
    return target_from({**TARGET, **changes})


def few(target: Target) -> list[Candidate]:
    return [
        it
        for it in candidates(target)
        if it.max_num_seqs in (32, 128, 256)
        and it.max_num_batched_tokens in (1024, 4096)
        and it.tensor_parallel < 4
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"slo": {"tpot_p99_s": 0.015}},
        {"weights": ["bf16", "fp8"], "cards": [{"card": "h100-sxm"}]},
        {
            "cards": [
                {"card": "h100-sxm", "price_per_hour": 1},
                {"card": "a100-sxm-80gb", "price_per_hour": 1.5},
            ]
        },
    ],
)
def test_it_is_never_beaten_by_trying_all(changes: dict[str, Any]) -> None:
    target = a_target(**changes)
    trials = Trials(target, fleet=4)
    found = search(target, trials, few(target))
    prices = [its.price_per_hour for it in few(target) if (its := evaluated(target, trials, it))]
    assert found.best.price_per_hour == min(prices)
    assert found.ruled_out > 0


def test_no_replica_bears_more_than_its_bound() -> None:
    target = a_target()
    trials = Trials(target, fleet=4)
    steps = [trials.highest(it) for it in few(target)[::2]]
    assert max(steps) < STEPS
    assert min(steps) > 0


def test_the_winner_holds_in_full_and_the_front_is_not_beaten() -> None:
    target = a_target()
    trials = Trials(target)
    found = search(target, trials)
    assert found.considered > 200
    option, seen = verified(target, trials, found.best)
    assert meets(target.slo, seen)
    assert seen.output_tokens_per_s >= 0.97 * 50_000 * 1.25
    assert option.replicas >= found.best.replicas
    assert found.best in found.front


def test_a_limit_that_nobody_meets_says_so() -> None:
    with pytest.raises(KilocardError, match=r"none of \d+ ways .* tpot_p99_s 0.001.*: loosen the SLO"):
        search(a_target(slo={"tpot_p99_s": 0.001}))
    with pytest.raises(KilocardError, match="within the cards that are there"):
        search(a_target(cards=[{"card": "h100-sxm", "most": 1}]))
    with pytest.raises(KilocardError, match=r"fits on none of rtx-4090 in any cut"):
        search(a_target(model="llama-3.1-70b", cards=[{"card": "rtx-4090"}], degrees=[1]))


def test_a_looser_limit_never_costs_more() -> None:
    prices = []
    for tpot_s in (0.015, 0.03, 0.06):
        target = a_target(slo={"ttft_p99_s": 1, "tpot_p99_s": tpot_s})
        prices.append(search(target, Trials(target, fleet=4), few(target)).best.price_per_hour)
    assert prices == sorted(prices, reverse=True)


def test_bisection_finds_the_last_from_anywhere_and_asks_little_where_it_is_near() -> None:
    for last in range(101):
        assert highest_where(lambda k, last=last: k <= last, 0, 100) == last  # type: ignore[misc]
        for guess in range(101):
            asked: list[int] = []

            def holds(k: int, last: int = last, asked: list[int] = asked) -> bool:
                asked.append(k)
                return k <= last

            assert highest_near(holds, guess, 100) == last
            assert all(0 <= k <= 100 for k in asked)
            assert len(asked) <= (4 if abs(last - guess) <= 1 else 16)
