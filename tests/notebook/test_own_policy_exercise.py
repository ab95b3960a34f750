"""The exercise that plays a reader's policy: it says how far ahead, and whether that is more than chance."""

from __future__ import annotations

import pytest

from kilocard.errors import KilocardError
from kilocard.notebook.exercises import check_policy, own_policy
from kilocard.notebook.leaderboard import Margin


def always_the_first(replicas, arrival, random):
    return 0


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Margin(1.5, 0.2, 11, 12), "Right: your policy beats the reference (least-delay) by 1.50 ± 0.20 %"),
        (Margin(0.3, 0.2, 7, 12), "Not yet: your policy beats the reference"),
        (Margin(0.3, 0.2, 7, 12), "which chance alone may give"),
        (Margin(-4.0, 0.2, 0, 12), "falls behind the reference (least-delay) by 4.00 ± 0.20 %"),
        (Margin(0.0, 0.0, 0, 12), "exactly as often as least-delay"),
    ],
)
def test_the_verdict_says_how_far_and_how_sure(
    found: Margin, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_policy, "against_the_reference", lambda _: found)
    assert said in own_policy.verdict_on(always_the_first)


def test_the_solution_is_right_and_stands_beneath(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(own_policy, "display", lambda it: shown.append(it.data))
    check_policy(own_policy.sparing)
    check_policy(None)
    assert "Right: your policy beats the reference" in shown[0]
    assert "Not answered yet" in shown[1]
    assert all("def sparing(replicas, arrival, random):" in it and "type:" not in it for it in shown)


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(KilocardError, match="is no policy"):
        own_policy.verdict_on(5)  # type: ignore[arg-type]


def test_the_best_of_many_is_lucky() -> None:
    assert own_policy.expected_best(1) == pytest.approx(0, abs=1e-3)
    assert own_policy.expected_best(2) == pytest.approx(0.5642, abs=1e-3)
