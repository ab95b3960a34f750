"""Prefill here, decode there: nobody else on the cards, and both ways are one; a wire only slows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.fleet.apart import cache_bytes, highest_rate, served_apart, served_together
from kilocard.parallel import Wire
from kilocard.specs import Case, case_from

FAST = Wire(0.0, 1e15)
UNEQUAL = {"kind": "lognormal", "mean_tokens": 10, "cv": 1, "most_tokens": 99}


def case(rate: float = 8, prompt: Any = 2000, answer: Any = 100, requests: int = 60, **more: Any) -> Case:
    workload = {"requests": requests, "rate_per_s": rate, "prompt_tokens": prompt, "output_tokens": answer}
    return case_from(
        {"model": "llama-3.1-8b", "card": "h100-sxm", "replicas": 2, "workload": workload | more}, "the case"
    )


def test_one_request_at_a_time_is_served_alike_together_and_apart() -> None:
    alone = case(rate=0.2, answer=50, requests=20)
    together, apart = served_together(alone), served_apart(alone, 1, 1, FAST)
    assert np.median(apart.ttft_s) == pytest.approx(np.median(together.ttft_s), rel=0.02)
    assert np.median(apart.tpot_s) == pytest.approx(np.median(together.tpot_s), rel=0.03)


def test_decoding_apart_meets_no_prompt() -> None:
    busy = case(rate=12, prompt=4000, requests=200)
    together, apart = served_together(busy), served_apart(busy, 1, 1, FAST)
    assert np.quantile(apart.tpot_s, 0.9) < 0.6 * np.quantile(together.tpot_s, 0.9)


@given(st.floats(1e-4, 0.2), st.floats(1e9, 1e11))
@settings(max_examples=10, deadline=None)
def test_a_wire_delays_what_comes_after_the_first_token_and_nothing_before(
    start_s: float, rate: float
) -> None:
    asked = case(requests=30)
    fast, slow = served_apart(asked, 1, 1, FAST), served_apart(asked, 1, 1, Wire(start_s, rate))
    assert (slow.ttft_s == fast.ttft_s).all()
    moved_s = start_s + cache_bytes(asked, 2000) / rate
    assert np.mean(slow.tpot_s - fast.tpot_s) == pytest.approx(moved_s / 99, rel=0.25, abs=2e-4)


def test_more_prefill_engines_make_first_tokens_earlier() -> None:
    busy = case(rate=20, requests=150)
    waits = [float(np.mean(served_apart(busy, count, 1, FAST).ttft_s)) for count in (1, 2, 4)]
    assert waits == sorted(waits, reverse=True)


def test_the_cache_on_the_wire_is_the_ledger_s() -> None:
    assert cache_bytes(case(), 1000) == 1000 * 131_072
    busy = served_apart(case(rate=10, requests=200), 1, 1, Wire(0.0, 10 * 2000 * 131_072))
    assert busy.wire_busy == pytest.approx(1, rel=0.2)


def test_the_share_within_counts_both_limits() -> None:
    served = served_together(case())
    assert served.within(1e9, 1e9) == 1
    assert served.within(0, 1e9) == served.within(1e9, 0) == 0


def test_the_highest_rate_stops_at_the_first_that_fails() -> None:
    assert highest_rate({1: 1.0, 2: 0.95, 4: 0.5, 8: 0.99}) == 2
    assert highest_rate({1: 0.1}) == 0


@pytest.mark.parametrize(
    ("asked", "pools", "said"),
    [
        (case(), (0, 1), "0 prefill and 1 decode"),
        (case(prompt=UNEQUAL), (1, 1), "of one length"),
        (case(distinct_prompts=3), (1, 1), "without shared prompts"),
        (case(turns={"count": 2, "think_s": 1}), (1, 1), "and turns"),
        (case().model_copy(update={"slow": {0: 5.0}}), (1, 1), "leave slow and cap out"),
        (case().model_copy(update={"cap": 4}), (1, 1), "leave slow and cap out"),
    ],
)  # fmt: skip
def test_what_cannot_be_simulated_apart_is_refused(asked: Case, pools: tuple[int, int], said: str) -> None:
    with pytest.raises(KilocardError, match=said):
        served_apart(asked, *pools, FAST)
