"""Laws of the statistics, on tables whose truth is known."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.record import Kind, Run, Stamp, Status
from kilocard.specs import SLO
from kilocard.stats import (
    by_column,
    highest_within,
    is_good,
    itl_quantiles,
    knee,
    knee_of,
    percentile,
    quantiles,
    steady_window,
    summarise,
    tpot_s,
)


def stamp(**workload: Any) -> Stamp:
    return Stamp(
        Kind.SIMULATED,
        "m",
        "test",
        "1",
        "none",
        {"name": "none"},
        "2026-01-01T00:00:00+00:00",
        workload=workload,
    )


def row(sent: float, ttft: float = 0.1, tpot: float = 0.01, tokens: int = 11, **more: Any) -> dict[str, Any]:
    first = sent + ttft
    return {
        "request_id": f"{sent}",
        "sent_s": sent,
        "first_token_s": first,
        "prompt_tokens": 20,
        "stage": 0,
        "last_token_s": first + tpot * (tokens - 1),
        "output_tokens": tokens,
        "status": Status.OK.value,
        **more,
    }


def table(*rows: dict[str, Any]) -> pd.DataFrame:
    return Run.from_rows(rows, stamp()).requests


def closed_loop(
    level: int, rounds: int, e2e: float = 1.0, stage: int = 0, start: float = 0.0
) -> list[dict[str, Any]]:
    """Workers that start one after another and each make `rounds` requests of exactly `e2e` seconds."""
    step = e2e / level
    return [
        row(start + step * worker + e2e * turn, ttft=0.1 * e2e, tpot=0.09 * e2e, tokens=11, stage=stage)
        for worker in range(level)
        for turn in range(rounds)
    ]


@given(st.lists(st.floats(0, 1e6), max_size=700), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_a_percentile_is_shown_only_with_five_rows_beyond_it(values: list[float], share: float) -> None:
    shown = percentile(values, share)
    assert (shown is not None) == (len(values) * (1 - share) >= 5 - 1e-9)
    if shown is not None:
        assert np.mean(np.array(values) <= shown) >= share - 1 / len(values)


@given(st.integers(500, 900), st.floats(0.1, 3), st.integers(0, 2**32))
def test_percentiles_ascend_between_the_extremes(count: int, sigma: float, seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(0, sigma, count)
    told = quantiles(values)
    assert told.p50 is not None and told.p90 is not None and told.p95 is not None and told.p99 is not None
    assert min(values) <= told.p50 <= told.p90 <= told.p95 <= told.p99 <= max(values)


@given(st.lists(st.one_of(st.none(), st.floats(0, 9)), max_size=30))
def test_nulls_are_left_out_and_not_counted_as_zero(values: list[float | None]) -> None:
    told = quantiles(pd.Series(values, dtype="Float64"))
    kept = [value for value in values if value is not None]
    assert told.n == len(kept)
    assert told.mean == (pytest.approx(np.mean(kept)) if kept else None)


def test_tpot_needs_two_tokens() -> None:
    shown = tpot_s(table(row(0.0, tokens=11), row(1.0, tokens=1), row(2.0, output_tokens=None)))
    assert shown[0] == pytest.approx(0.01)
    assert shown[1:].isna().all()


@given(st.lists(st.tuples(st.floats(0.001, 1), st.integers(2, 500)), min_size=1, max_size=30))
@settings(max_examples=25)
def test_itl_is_over_tokens(requests: list[tuple[float, int]]) -> None:
    rows = table(*(row(float(at), tpot=tpot, tokens=tokens) for at, (tpot, tokens) in enumerate(requests)))
    gaps = np.repeat([tpot for tpot, _ in requests], [tokens - 1 for _, tokens in requests])
    assert itl_quantiles(rows).mean == pytest.approx(gaps.mean())


def test_failed_requests_are_in_no_latency_and_no_rate() -> None:
    well = closed_loop(4, 5)
    failed = [row(0.5, ttft=50.0, status=status.value) for status in Status if status is not Status.OK]
    healthy = summarise(Run.from_rows(well, stamp()))[0]
    mixed = summarise(Run.from_rows([*well, *failed], stamp()))[0]
    assert mixed.ttft_s == healthy.ttft_s
    assert mixed.e2e_s == healthy.e2e_s
    assert mixed.errors == 5
    assert mixed.error_rate == pytest.approx(5 / 25)
    assert mixed.status == {"ok": 20, **{status.value: 1 for status in Status if status is not Status.OK}}


@given(st.integers(1, 40), st.integers(3, 6), st.floats(0.05, 20), st.floats(0, 100))
@settings(max_examples=25)
def test_the_steady_window_sees_the_true_rate_whatever_the_ramp(
    level: int, rounds: int, e2e: float, at: float
) -> None:
    rounds += 5 // level
    told = summarise(Run.from_rows(closed_loop(level, rounds, e2e, start=at), stamp()))[0]
    assert told.window is not None
    assert told.window.rule == "steady"
    assert told.requests_per_s == pytest.approx(level / e2e, rel=(0.1 + 1.01 / level) / (rounds - 1))
    assert told.output_tokens_per_s == pytest.approx(11 * level / e2e, rel=0.3 / (rounds - 1) + 0.01)


def test_a_stage_too_short_for_a_steady_part_says_so() -> None:
    window = steady_window(table(*closed_loop(8, 1)))
    assert window is not None
    assert window.rule == "whole"
    assert steady_window(table(row(0.0, status="lost"))) is None


def test_an_open_loop_is_counted_from_its_first_completion_to_its_last_send() -> None:
    rows = table(*(row(at / 10, scheduled_s=at / 10) for at in range(100)))
    window = steady_window(rows)
    assert window is not None
    assert (window.start_s, window.end_s) == pytest.approx((0.2, 9.9))


def test_ttft_from_the_schedule_has_the_wait_of_the_client() -> None:
    rows = [row(at + 0.3, scheduled_s=float(at)) for at in range(10)]
    told = summarise(Run.from_rows(rows, stamp()))[0]
    assert told.ttft_s.mean == pytest.approx(0.1)
    assert told.ttft_from_scheduled_s is not None
    assert told.ttft_from_scheduled_s.mean == pytest.approx(0.4)


def test_good_means_ended_well_within_every_limit() -> None:
    slo = SLO(ttft_p99_s=0.2, tpot_p99_s=0.02)
    rows = table(
        row(0),
        row(1, ttft=0.3),
        row(2, tpot=0.03),
        row(3, status="error"),
        row(4, tokens=1),
        row(5, first_token_s=None),
    )
    assert is_good(rows, slo).tolist() == [True, False, False, False, True, False]


@given(st.floats(0.01, 2), st.floats(0.01, 2))
@settings(max_examples=25)
def test_a_laxer_slo_never_lowers_goodput(limit: float, laxer: float) -> None:
    run = Run.from_rows([row(at, ttft=0.02 * at) for at in range(60)], stamp())
    tight, lax = sorted((limit, laxer))
    shares = [summarise(run, SLO(ttft_p99_s=value))[0].goodput_ratio for value in (tight, lax)]
    assert shares[0] is not None and shares[1] is not None
    assert shares[0] <= shares[1]


@given(st.integers(0, 9), st.floats(10, 1e6))
def test_the_knee_of_a_saturating_curve_is_at_its_half(exponent: int, most: float) -> None:
    """X(N) = most·N / (N + h): power X²/N has its maximum at N = h exactly."""
    levels = [2**power for power in range(11)]
    half = 2**exponent
    found = knee(levels, [most * level / (level + half) for level in levels])
    assert (found.concurrency, found.reached) == (half, True)


@given(st.lists(st.floats(0.1, 1e4), min_size=2, max_size=9), st.floats(0.01, 100), st.randoms())
def test_the_knee_knows_no_unit_and_no_order(rates: list[float], scale: float, random: Any) -> None:
    levels = [2**power for power in range(len(rates))]
    found = knee(levels, rates)
    pairs = list(zip(levels, rates, strict=True))
    random.shuffle(pairs)
    assert knee([level for level, _ in pairs], [rate for _, rate in pairs]) == found
    power = {level: rate**2 / level for level, rate in zip(levels, rates, strict=True)}
    scaled = knee(levels, [rate * scale for rate in rates]).concurrency
    assert power[scaled] == pytest.approx(power[found.concurrency])


def test_a_sweep_that_still_scales_has_not_reached_its_knee() -> None:
    assert not knee([1, 2, 4], [10, 20, 40]).reached
    assert knee([1, 2, 4], [10, 10, 10]).concurrency == 1


def test_a_run_with_levels_has_a_knee_and_a_highest_level_within_its_slo() -> None:
    rows: list[dict[str, Any]] = []
    for stage, level in enumerate((1, 4, 16)):
        e2e = 1.0 if level < 16 else 8.0
        rows += closed_loop(level, 8, e2e, stage, start=100.0 * stage)
    run = Run.from_rows(
        rows, stamp(stages={"0": {"concurrency": 1}, "1": {"concurrency": 4}, "2": {"concurrency": 16}})
    )
    levels = summarise(run, SLO(e2e_p99_s=1.5))
    found = knee_of(levels)
    assert found is not None
    assert found.concurrency == 4
    within = highest_within(levels)
    assert within is not None
    assert within.concurrency == 4
    assert knee_of(levels[:2]) is None


def test_groups_add_up() -> None:
    rows = [{**entry, "node": f"n{at % 3}"} for at, entry in enumerate(closed_loop(3, 7))]
    groups = by_column(Run.from_rows(rows, stamp()), "node")
    assert {name: group.requests for name, group in groups.items()} == {"n0": 7, "n1": 7, "n2": 7}
    with pytest.raises(KilocardError, match="no column 'rack'"):
        by_column(Run.from_rows(rows, stamp()), "rack")


def test_an_empty_stage_and_a_failed_one_have_no_numbers() -> None:
    told = summarise(
        Run.from_rows([row(0.0, status="refused", first_token_s=None, last_token_s=None)], stamp()),
        SLO(ttft_p99_s=1),
    )[0]
    assert (told.ttft_s.mean, told.ttft_s.n, told.window, told.requests_per_s) == (None, 0, None, None)
    assert told.goodput_ratio == 0.0
