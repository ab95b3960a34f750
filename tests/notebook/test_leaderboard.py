"""The order of policies: seeded, fair to each, and judged on traffic that nobody tuned on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kilocard.notebook import figures
from kilocard.notebook import leaderboard as board
from kilocard.notebook.leaderboard import Margin, Score, Standing, Traffic, margin
from kilocard.routing.policies import POLICIES, REFERENCE


def fewest(replicas, arrival, random):
    return int(np.argmin(np.where(replicas.weight > 0, replicas.active, 10_000)))


def always_the_first(replicas, arrival, random):
    return 0


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fiftieth of the traffic."""

    def less(traffic: Traffic) -> Traffic:
        workload = traffic.case.workload.model_copy(update={"requests": 40})
        case = traffic.case.model_copy(update={"workload": workload})
        return replace(traffic, case=case, seeds=traffic.seeds[:2])

    monkeypatch.setattr(board, "TRAINING", less(board.TRAINING))
    for name in ("HELD_OUT", "SEALED"):
        monkeypatch.setattr(board, name, tuple(less(it) for it in getattr(board, name)))


def test_the_same_policy_has_the_same_score_every_time() -> None:
    first = board.standing(fewest)
    board.score.cache_clear()
    assert board.standing(fewest) == first


def test_training_and_held_out_traffic_share_no_seed() -> None:
    held_out = {seed for traffic in board.HELD_OUT for seed in traffic.seeds}
    sealed = {seed for traffic in board.SEALED for seed in traffic.seeds}
    assert not held_out & set(board.TRAINING.seeds) and not sealed & (held_out | set(board.TRAINING.seeds))
    assert [it.name for it in board.SEALED] == [it.name for it in board.HELD_OUT]
    assert len({traffic.name for traffic in (board.TRAINING, *board.HELD_OUT)}) == 5


def test_the_best_stands_first_and_every_policy_is_there_once() -> None:
    rows = board.leaderboard([fewest], ["random", REFERENCE])
    assert rows[0].ttft_p99_s is None, "no percentile of so few"
    assert sorted(row.policy for row in rows) == sorted(["fewest", "random", REFERENCE])
    shares = [row.goodput for row in rows]
    assert shares == sorted(shares, reverse=True)
    assert all(0 <= share <= 1 for row in rows for it in row.held_out.values() for share in it.within)


def test_all_shipped_policies_are_entered_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    blank = Score((1.0,), 0.1, 0.01, 1.0)
    monkeypatch.setattr(board, "score", lambda policy, traffic: blank)
    assert {row.policy for row in board.leaderboard()} == set(POLICIES)


def test_a_policy_that_crowds_one_engine_loses_to_the_reference() -> None:
    crowded = board.against_the_reference(always_the_first)
    assert crowded.percent < 0 and not crowded.beats and crowded.won == 0
    assert board.against_the_reference(always_the_first, sealed=True) != crowded
    equal = board.against_the_reference(REFERENCE)
    assert equal == Margin(0.0, 0.0, 0, equal.runs) and not equal.beats


def a_standing(name: str, **held_out: tuple[float, ...]) -> Standing:
    scores = {key: Score(within, 0.2, 0.01, 1.0) for key, within in held_out.items()}
    return Standing(name, scores["one"], scores)


def test_a_margin_is_paired_by_run() -> None:
    ours = a_standing("ours", one=(0.99, 0.66), two=(0.55, 0.88))
    theirs = a_standing("theirs", one=(0.90, 0.60), two=(0.50, 0.80))
    found = margin(ours, theirs)
    assert found.percent == pytest.approx(10)
    assert found.error_percent == pytest.approx(0, abs=1e-9)
    assert (found.won, found.runs) == (4, 4) and found.beats


def test_a_lead_within_its_own_scatter_is_none() -> None:
    ours = a_standing("ours", one=(0.95, 0.80, 0.90))
    theirs = a_standing("theirs", one=(0.90, 0.85, 0.80))
    found = margin(ours, theirs)
    assert found.percent > 0 and not found.beats


def test_who_looks_at_training_alone_takes_the_luckiest(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = {fewest: 0.8, always_the_first: 0.9}
    monkeypatch.setattr(board, "score", lambda policy, _: Score((shares[policy],), 0.1, 0.01, 1.0))
    assert board.best_on_training([fewest, always_the_first]) is always_the_first


def test_its_figures_say_what_they_show() -> None:
    shown: list[str] = []
    lines = [
        a_standing("mine", one=(1.0, 1.0), two=(0.9, 0.8)),
        a_standing(REFERENCE, one=(0.9,), two=(0.7,)),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kilocard.notebook.style.display", lambda it: shown.append(it.data))
        figures.leaderboard_figure(lines, title="Mine leads", stamp="simulated", own=["mine"])
        figures.luck_figure(
            [(it.training, it.held_out["two"]) for it in lines], title="Luck goes", stamp="simulated"
        )
    order, luck = shown
    assert "mine 7.5: one 0, two 15; least-delay 20: one 10, two 30" in order
    assert "The one chosen had 0 % and has 15 %; the mean of all is 22.5 %" in luck
    assert "Mine leads" in order and "Luck goes" in luck
