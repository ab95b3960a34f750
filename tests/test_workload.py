"""Laws of a workload: rates, bounds, and the same seed giving the same requests."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.workload import (
    Arrivals,
    Empirical,
    Fixed,
    HeavyTail,
    Lengths,
    Listed,
    LogNormal,
    SharedPrefix,
    Workload,
)

rates = st.floats(0.01, 1000.0)
processes = st.sampled_from(["constant", "poisson", "gamma"])
seeds = st.integers(0, 2**32)
lengths = st.one_of(
    st.builds(Fixed, st.integers(1, 5000)),
    st.builds(LogNormal, st.floats(1, 2000), st.floats(0.05, 3), st.integers(1, 5000)),
    st.builds(HeavyTail, st.integers(1, 100), st.floats(0.5, 4), st.integers(100, 5000)),
    st.builds(Empirical, st.lists(st.integers(1, 5000), min_size=1, max_size=20)),
    st.builds(Listed, st.lists(st.integers(1, 5000), min_size=1, max_size=20).map(tuple)),
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(rates, processes, st.floats(0.2, 3.0), seeds)
def test_arrivals_ascend_from_zero(rate: float, process: str, cv: float, seed: int) -> None:
    times = Arrivals(rate, process, cv).times(50, rng(seed))  # type: ignore[arg-type]
    assert times[0] >= 0
    assert (np.diff(times) >= 0).all()


@given(rates, st.sampled_from([("poisson", 1.0), ("gamma", 0.5), ("gamma", 2.0), ("constant", 1.0)]))
@settings(max_examples=20)
def test_the_rate_and_the_spread_of_gaps_are_those_asked_for(rate: float, shape: tuple[str, float]) -> None:
    process, cv = shape
    count = 20_000
    gaps = np.diff(Arrivals(rate, process, cv).times(count, rng(7)), prepend=0.0)  # type: ignore[arg-type]
    expected_cv = 0.0 if process == "constant" else cv
    assert gaps.mean() * rate == pytest.approx(1.0, abs=5 * expected_cv / count**0.5 + 1e-9)
    assert gaps.std() / gaps.mean() == pytest.approx(expected_cv, abs=0.1)


@given(st.floats(0.5, 50), st.floats(0.5, 50), st.floats(1, 100))
def test_a_ramp_sends_what_its_area_says(start: float, end: float, ramp_s: float) -> None:
    count = int((start + end) / 2 * ramp_s) + 20
    times = Arrivals(start, "constant", end_rate_per_s=end, ramp_s=ramp_s).times(count, rng())
    for share in (0.25, 0.5, 1.0):
        moment = share * ramp_s
        area = start * moment + (end - start) / ramp_s * moment**2 / 2
        assert (times <= moment + 1e-9).sum() == pytest.approx(area, abs=1.0 + 1e-6)
    assert np.diff(times)[-1] == pytest.approx(1 / end), "past its end the rate stays"


@given(lengths, seeds)
def test_lengths_stay_in_their_bounds(distribution: Lengths, seed: int) -> None:
    drawn = distribution.draw(200, rng(seed))
    assert len(drawn) == 200
    assert drawn.min() >= 1
    if isinstance(distribution, LogNormal | HeavyTail):
        assert drawn.max() <= distribution.most_tokens
    if isinstance(distribution, HeavyTail):
        assert drawn.min() >= distribution.least_tokens
    if isinstance(distribution, Empirical):
        assert set(drawn) <= set(distribution.observed_tokens)


def test_a_log_normal_has_its_mean_and_spread() -> None:
    drawn = LogNormal(400, 0.7, 10**6).draw(200_000, rng())
    assert drawn.mean() == pytest.approx(400, rel=0.02)
    assert drawn.std() / drawn.mean() == pytest.approx(0.7, rel=0.05)


def test_a_heavy_tail_has_its_index() -> None:
    drawn = HeavyTail(10, 2.0, 10**9).draw(200_000, rng())
    assert (drawn >= 100).mean() == pytest.approx(0.01, rel=0.2)


@given(
    lengths,
    st.one_of(st.none(), st.builds(Arrivals, rates, processes)),
    st.integers(1, 20),
    seeds,
    st.integers(0, 9),
)
@settings(max_examples=30)
def test_a_seed_always_gives_the_same_requests(
    distribution: Lengths, arrivals: Arrivals | None, count: int, seed: int, stage: int
) -> None:
    load = Workload(count, distribution, Fixed(3), arrivals, seed=seed)
    once, again = load.draw(stage), load.draw(stage)
    assert once == again
    assert [request.prompt_ids(30_000) for request in once[:3]] == [
        request.prompt_ids(30_000) for request in again[:3]
    ]
    assert all((request.scheduled_s is None) == (arrivals is None) for request in once)


def test_requests_and_stages_share_no_prompt() -> None:
    load = Workload(20, Fixed(16), Fixed(1))
    starts = {tuple(request.prompt_ids(30_000)[:8]) for stage in range(3) for request in load.draw(stage)}
    assert len(starts) == 60


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 4))
def test_a_shared_prefix_is_all_that_is_shared(prompt: int, shared: int, groups: int) -> None:
    load = Workload(12, Fixed(prompt), Fixed(1), prefix=SharedPrefix(shared, groups))
    prompts = [request.prompt_ids(30_000) for request in load.draw()]
    assert {len(ids) for ids in prompts} == {prompt}
    assert len({tuple(ids[:shared]) for ids in prompts}) <= groups
    if prompt >= shared + 8:
        assert len({tuple(ids[shared:]) for ids in prompts}) == 12


def test_the_description_names_every_distribution() -> None:
    told = Workload(3, LogNormal(9, 1, 90), Empirical([4, 5]), Arrivals(2.0)).describe()
    assert told["prompt_tokens"] == {"kind": "lognormal", "mean_tokens": 9, "cv": 1, "most_tokens": 90}
    assert told["output_tokens"] == {"kind": "empirical", "observed": 2}
    assert told["arrivals"]["rate_per_s"] == 2.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Fixed(0),
        lambda: LogNormal(0, 1, 9),
        lambda: LogNormal(9, 0, 9),
        lambda: HeavyTail(9, 1, 8),
        lambda: HeavyTail(1, 0, 8),
        lambda: Empirical([]),
        lambda: Empirical([0]),
        lambda: Arrivals(0),
        lambda: Arrivals(1, "weekly"),
        lambda: Arrivals(1, "gamma", 0),
        lambda: Arrivals(1, end_rate_per_s=2),
        lambda: Arrivals(1, end_rate_per_s=-2, ramp_s=1),
        *(lambda rate=rate: Arrivals(rate) for rate in (float("nan"), float("inf"), 1e-300, 1e12)),
        lambda: Arrivals(1, "gamma", float("nan")),
        lambda: Arrivals(1, end_rate_per_s=float("inf"), ramp_s=1),
        lambda: Arrivals(1, end_rate_per_s=1, ramp_s=float("inf")),
        lambda: Fixed(10**9),
        lambda: Empirical([4, 10**9]),
        lambda: LogNormal(9, float("inf"), 9),
        lambda: Workload(10**12, Fixed(1), Fixed(1)),
        lambda: SharedPrefix(0),
        lambda: Workload(0, Fixed(1), Fixed(1)),
        lambda: Workload(1, Fixed(1), Fixed(1), seed=-1),
        lambda: Workload(1, Fixed(1), Fixed(1), priority={"batch": 0.0}),
        lambda: Workload(1, Fixed(1), Fixed(1), priority={"batch": float("nan")}),
        lambda: Workload(1, Fixed(1), Fixed(1), priority={"batch\r\nX-Key: stolen": 1.0}),
        lambda: Workload(1, Fixed(1), Fixed(1), priority={" ": 1.0}),
    ],
)
def test_impossible_workloads_are_refused(make: object) -> None:
    with pytest.raises(KilocardError):
        make()  # type: ignore[operator]


def test_listed_lengths_come_in_their_order_and_again_from_the_start():
    load = Workload(5, Fixed(8), Listed((3, 1, 2)))
    assert [request.max_tokens for request in load.draw()] == [3, 1, 2, 3, 1]
    with pytest.raises(KilocardError, match="needs at least one"):
        Listed(())
    with pytest.raises(KilocardError, match="a length of 0 tokens"):
        Listed((4, 0))


@given(
    st.dictionaries(st.sampled_from(["interactive", "async", "batch"]), st.floats(0.1, 10), max_size=3), seeds
)
def test_priorities_come_by_their_shares_and_change_nothing_else(shares: dict[str, float], seed: int) -> None:
    plain = Workload(400, Fixed(8), LogNormal(20, 1, 90), Arrivals(5.0), seed=seed)
    ranked = replace(plain, priority=shares)
    drawn = [request.priority for request in ranked.draw()]
    total = sum(shares.values())
    for name, share in shares.items():
        spread = (share / total * (1 - share / total) / 400) ** 0.5
        assert drawn.count(name) / 400 == pytest.approx(share / total, abs=6 * spread + 1e-9)
    assert set(drawn) <= (set(shares) or {None})
    assert [replace(request, priority=None) for request in ranked.draw()] == plain.draw()
