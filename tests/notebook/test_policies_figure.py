"""Policies beside each other: their words hold the numbers, and too few requests are refused."""

from __future__ import annotations

import pytest

from kilocard.errors import KilocardError
from kilocard.notebook import figures, style
from kilocard.record import Kind, Run, Stamp


def run_of(kind: Kind, count: int, ttft_s: float) -> Run:
    stamp = Stamp(kind, "m", "engine", "1", "card", {"name": "box"}, "2026-11-30T00:00:00+00:00")
    rows = [
        {
            "request_id": str(n), "status": "ok", "output_tokens": 10, "stage": 0,
            "sent_s": n, "first_token_s": n + ttft_s, "last_token_s": n + ttft_s + 0.9,
        }
        for n in range(count)
    ]  # fmt: skip
    return Run.from_rows(rows, stamp)


def test_each_policy_and_kind_is_told_with_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []
    monkeypatch.setattr(style, "display", lambda thing: pages.append(thing.data))
    live = {"turns": run_of(Kind.EMULATED, 100, 0.5), "counts": run_of(Kind.EMULATED, 100, 0.1)}
    told = {name: run_of(Kind.SIMULATED, 100, 0.4) for name in ("turns", "counts", "seconds")}
    figures.policies_figure({"live": live, "foretold": told}, title="t")
    assert "turns, emulated: TTFT, s 0.5 to 0.5" in pages[0]
    assert "turns, simulated: TTFT, s 0.4 to 0.4" in pages[0]
    assert "seconds, simulated: TTFT, s 0.4 to 0.4" in pages[0] and "seconds, emulated" not in pages[0]
    assert "counts, emulated: ms a token 100 to 100" in pages[0]


def test_a_p95_of_few_is_refused() -> None:
    few = {"turns": run_of(Kind.EMULATED, 20, 0.5)}
    with pytest.raises(KilocardError, match="20 requests are too few for a P95"):
        figures.policies_figure({"live": few}, title="t")
