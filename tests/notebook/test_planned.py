"""What the chapters of Part 5 compute with: fitted judges, discounts, the figure of a fall."""

from __future__ import annotations

import pytest

from kilocard.notebook import figures
from kilocard.notebook.discounts import BLIND, ideal_tokens_per_s, in_bursts, million, seen_at, share_borne
from kilocard.notebook.planned import judge_fitted, shipped_target, sources_sweep
from kilocard.parallel.layout import Layout
from kilocard.planning.waterfall import SLOW_ONE, Fall, with_reserve


def test_a_fitted_judge_gives_what_the_sweep_gave_at_the_level_that_counts() -> None:
    target, sweep = shipped_target("ten-thousand-tokens"), sources_sweep()
    judge, errors = judge_fitted(target, sweep, link="pcie4-x16")
    speed = judge.judged(Layout(1), 8).speed
    assert speed is not None
    assert speed.tpot_s == pytest.approx(0.070, rel=0.01)
    assert abs(errors[-1]) < 0.01
    assert judge.calibration.kind == "run"


def test_a_stricter_promise_leaves_less_and_bursts_take_more() -> None:
    ideal = ideal_tokens_per_s(million())
    strict = million(ttft_p99_s=0.08)
    loose, tight = share_borne(million(), ideal), share_borne(strict, ideal)
    assert 0.9 < loose <= 1.05
    assert tight < 0.8
    assert share_borne(in_bursts(strict, 4), ideal) < tight


def test_slow_ones_are_seen_in_an_empty_cluster_unless_somebody_looks() -> None:
    faults = [*SLOW_ONE, {**SLOW_ONE[0], "replica": "chat-1"}]
    unseen = seen_at(million(), 5, policy="round-robin", faults=faults, gateway=BLIND)
    seen = seen_at(million(), 5, policy="least-active", faults=faults)
    assert unseen.share_of_slow == pytest.approx(0.02, abs=0.002)
    assert unseen.tpot_p99_s > 4 * unseen.healthy_p99_s
    assert seen.share_of_slow < 0.01


def test_a_fall_is_drawn_and_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr(figures.falls.style, "show", lambda figure, **told: shown.append(told))
    falls = with_reserve((Fall("best", 100.0, 1.0), Fall("bursts", 90.0, 0.9)), 0.25, 95, 5)
    figures.falls_figure(falls, title="t", stamp="s", unit="tokens/s")
    assert "bursts: 90, 90% of the one before" in shown[0]["alt"]
    assert falls[-1].tokens_per_s == pytest.approx(90 * 0.95 / 1.25)
