"""Engines that come, go and change in a simulated cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cluster.scenarios import events_of, require_conserved, simulated

from kilocard.cluster.summary import summary_of
from kilocard.specs.scenario import Storage

LONG: dict[str, Any] = {"requests": 20_000}
SCALING = {"least": 2, "most": 8, "cold_start_s": 30, "up": {"grows_s": 5}, "down": {"for_s": 60}}


def test_a_rolling_change_loses_nothing_and_takes_a_quarter_at_a_time() -> None:
    outcome = simulated(traffic=LONG, changes=[{"at_s": 20, "pool": "chat", "version": "v2"}])
    require_conserved(outcome)
    its = summary_of(outcome)
    assert (its.ok, its.errors, its.refused) == (20_000, 0, 0)
    assert len(events_of(outcome, "serving")) == 8
    samples = outcome.ground.samples
    out = (samples.share[: int(samples.ends[0])] == 0).sum(axis=1)
    assert out.max() == 2


def test_a_bad_canary_is_taken_back_and_a_good_one_goes_through() -> None:
    bad, good = (
        simulated(traffic=LONG, changes=[{"at_s": 20, "pool": "chat", "version": "v2", "times": times}])
        for times in (3.0, 1.0)
    )
    assert len(events_of(bad, "serving")) < len(events_of(good, "serving")) == 8
    assert "its median TTFT is" in events_of(bad, "returning")[0][1]
    assert not events_of(good, "returning")
    for outcome in (bad, good):
        assert summary_of(outcome).ok == 20_000


def test_who_starts_waits_for_its_weights_and_together_for_longer() -> None:
    slow = {"gb_per_s": 0.5, "node_gb_per_s": 0.5, "boot_s": 5}
    one = simulated(traffic=LONG, faults=[{"kind": "crash", "at_s": 20, "replica": "chat-1"}], storage=slow)
    all_of_them = simulated(traffic=LONG, faults=[{"kind": "crash", "at_s": 20, "node": 0}], storage=slow)
    alone_s = events_of(one, "serving")[0][0] - 20
    together_s = events_of(all_of_them, "serving")[-1][0] - 20
    assert alone_s == pytest.approx(2 + 5 + 16.06 / 0.5 + 6, rel=0.1)
    assert together_s == pytest.approx(2 + 5 + 8 * 16.06 / 0.5 + 6, rel=0.1)
    assert Storage().boot_s > 0


def test_a_pool_grows_under_load_and_shrinks_when_it_is_idle() -> None:
    stages = [
        {"rate_per_s": 20, "duration_s": 60},
        {"rate_per_s": 260, "duration_s": 240},
        {"rate_per_s": 5, "duration_s": 600},
    ]
    outcome = simulated(
        {"replicas": 2, "cap": 32, "scaling": SCALING},
        {"stages": stages, "requests": None, "rate_per_s": None},
        scale_by="use",
    )
    require_conserved(outcome)
    counts = [int(about.split()[1]) for _, about in events_of(outcome, "scale")]
    assert max(counts) > 4
    assert counts[-1] == 2
    assert all(2 <= count <= 8 for count in counts)


@pytest.mark.parametrize("by", ["rate", "forecast"])
def test_the_other_scalers_keep_within_the_file(by: str) -> None:
    stages = [{"rate_per_s": 20, "duration_s": 60}, {"rate_per_s": 200, "duration_s": 200}]
    outcome = simulated(
        {"replicas": 2, "cap": 32, "scaling": SCALING},
        {"stages": stages, "requests": None, "rate_per_s": None},
        scale_by=by,
    )
    require_conserved(outcome)
    counts = [int(about.split()[1]) for _, about in events_of(outcome, "scale")]
    assert counts
    assert all(2 <= count <= 8 for count in counts)


def test_a_forecast_is_up_before_the_load_is() -> None:
    """It knows what comes; who scales by use begins when the line has grown."""
    stages = [{"rate_per_s": 20, "duration_s": 120}, {"rate_per_s": 220, "duration_s": 200}]
    waits = {}
    for by in ("forecast", "use"):
        outcome = simulated(
            {"replicas": 2, "cap": 32, "scaling": {**SCALING, "cold_start_s": 60}},
            {"stages": stages, "requests": None, "rate_per_s": None},
            scale_by=by,
        )
        waits[by] = summary_of(outcome)
    good = {by: its.ok / its.arrived for by, its in waits.items()}
    assert good["forecast"] > good["use"]


def test_planned_restarts_lose_nothing() -> None:
    outcome = simulated(
        traffic={"stages": [{"rate_per_s": 5, "duration_s": 3600}], "requests": None, "rate_per_s": None},
        cluster={"lifecycle": {"restarts": {"every_h": 0.25, "begin": "00:00", "end": "23:59"}}},
        sample_s=60,
    )
    require_conserved(outcome)
    assert summary_of(outcome).ok == summary_of(outcome).arrived
    assert len(events_of(outcome, "serving")) >= 8
    assert np.isfinite(outcome.end_s)
