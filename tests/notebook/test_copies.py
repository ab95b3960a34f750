"""Copies loaded at once, and one of them killed: on emulated engines, which die like real ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kilocard.errors import KilocardError
from kilocard.launch import Engine, default_spec, stop_all
from kilocard.launch.process import play
from kilocard.notebook import figures, replicas, style
from kilocard.notebook.loss import lose_one
from kilocard.notebook.replicas import AtOnce, Load, at_once, family, on_one_clock, still_running, two_copies
from kilocard.record import Kind, Run, Stamp
from kilocard.specs.engine import EngineSpec

LOAD = Load(concurrency=2, requests=8, prompt_tokens=16, output_tokens=8)


@pytest.fixture
def pair() -> Iterator[list[Engine]]:
    with pytest.warns(UserWarning, match="EMULATED"):
        engines = [play(default_spec(), 0, "a test") for _ in range(2)]
    yield engines
    stop_all(engines)


def run_of(rows: list[dict[str, object]], began_s: float = 0.0) -> Run:
    stamp = Stamp(Kind.EMULATED, "m", "engine", "1", "card", {"name": "box"}, "2026-11-29T00:00:00+00:00",
                  client={"began_s": began_s, "cpu_cores": 0.1})  # fmt: skip
    return Run.from_rows(rows, stamp)


def row(
    number: int, sent: float, first: float | None, last: float | None, status: str = "ok"
) -> dict[str, object]:
    times = {"sent_s": sent, "first_token_s": first, "last_token_s": last}
    return {"request_id": str(number), "status": status, "output_tokens": 5, "stage": 0, **times}


def test_runs_on_one_clock_count_from_the_first() -> None:
    early, late = on_one_clock([run_of([row(1, 0.5, 1, 2)], 100.0), run_of([row(1, 0.5, 1, 2)], 100.25)])
    assert early.requests["sent_s"].tolist() == [0.5]
    assert late.requests["last_token_s"].tolist() == [2.25]


def test_two_at_once_each_answer_their_own(pair: list[Engine]) -> None:
    seen = at_once(pair, LOAD)
    assert seen.all_answered
    assert [len(run.ok) for run in seen.runs] == [LOAD.requests] * 2
    assert seen.tokens_per_s == pytest.approx(sum(map(replicas.tokens_per_s, seen.runs)))
    ends = [float(run.ok["last_token_s"].max()) for run in seen.runs]
    begins = [float(run.ok["sent_s"].min()) for run in seen.runs]
    assert max(begins) < min(ends), "one came after the other"
    assert seen.cpu_per_token_s >= 0 and seen.spread_percent == 0


def test_turns_are_the_stages_of_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def pretend(group: list[str], load: Load, *, seed: int) -> AtOnce:
        asked.append(list(group))
        rows = [row(n, n, n + 0.5, n + 2.0 * len(asked)) for n in range(3)]
        return AtOnce(tuple(run_of(rows, 10.0 * len(asked)) for _ in group), (0.25,) * len(group))

    monkeypatch.setattr(replicas, "at_once", pretend)
    first, second, both = replicas.by_turns(["A", "B"], LOAD)  # type: ignore[list-item]
    assert asked == [["A"], ["A", "B"], ["B"], ["B"], ["A", "B"], ["A"]]
    assert [len(it.runs) for it in (first, second, both)] == [1, 1, 2]
    assert first.runs[0].stages == [0, 1] and len(first.runs[0].requests) == 6
    assert first.runs[0].requests["sent_s"].tolist() == [0, 1, 2, 50, 51, 52]
    assert both.cpu_s == (0.5, 0.5)
    slow, quick = replicas.stage_tokens_per_s(first.runs[0], 1), replicas.stage_tokens_per_s(first.runs[0], 0)
    assert replicas.tokens_per_s(first.runs[0]) == pytest.approx((slow + quick) / 2)
    assert first.spread_percent == pytest.approx(100 * (quick / slow - 1))


def test_a_death_takes_its_own_requests_and_no_others(
    pair: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    began = family(pair)
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "is_shared", property(lambda _: True))
        assert not family(pair)
        with pytest.raises(KilocardError, match="has other users: kill an engine that was started here"):
            lose_one(pair, LOAD, after_s=0.0)
    loss = lose_one(pair, LOAD, after_s=0.6)
    assert all(len(run.ok) == len(run.requests) == LOAD.requests for run in loss.survivors)
    assert 0 <= loss.cut <= LOAD.concurrency and loss.cut + loss.unanswered >= 1
    assert loss.counted_whole
    assert loss.lost.stamp.client["stopped"]
    assert loss.said == "the engine died: no cause found in its log (exit code -9)"
    assert loss.client_knew_s > 0 and loss.owner_knew_s > 0
    assert len(still_running(began)) == 1
    stop_all(pair)
    assert not still_running(began)


@pytest.mark.parametrize(
    ("urls", "lends", "why"),
    [
        ("http://127.0.0.1:1", 8, "KILOCARD_ENGINE_URL names are not ours to kill"),
        ("", 1, "two engines need two cores or cards, and this box lends 1"),
    ],
)
def test_where_two_cannot_be_had_they_are_emulated(
    urls: str, lends: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[str] = []

    def pretend(spec: EngineSpec, port: int, reason: str) -> str:
        played.append(reason)
        return reason

    monkeypatch.setenv("KILOCARD_ENGINE_URL", urls)
    monkeypatch.setattr(replicas, "find_build", lambda: None)
    monkeypatch.setattr(replicas, "most_ranks", lambda: lends)
    monkeypatch.setattr(replicas, "play", pretend)
    assert len(two_copies()) == 2
    assert len(played) == 2 and why in played[0]


def test_the_copies_figure_says_its_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []
    monkeypatch.setattr(style, "display", lambda thing: pages.append(thing.data))
    alone = run_of([row(n, n, n + 0.5, n + 1) for n in range(10)])
    slower = run_of([row(n, n, n + 0.5, n + 2.5) for n in range(10)])
    figures.copies_figure({"A": alone, "B": alone}, {"A": slower, "B": slower}, title="t")
    assert f"predicted {2 * replicas.tokens_per_s(alone):.3g}. TPOT" in pages[0]
    assert "A alone 125, at once 500" in pages[0]


def test_the_lives_figure_says_how_each_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []
    monkeypatch.setattr(style, "display", lambda thing: pages.append(thing.data))
    good = run_of([row(n, n, n + 0.5, n + 2) for n in range(3)])
    bad = run_of([row(0, 0, 0.5, 1.5), row(1, 1, 1.5, 2, "lost"), row(2, 1, None, None, "lost"),
                  row(3, 2.1, None, None, "refused")])  # fmt: skip
    figures.lives_figure({"A": good, "B": bad}, title="t", marked_s=2.05, mark="B is killed")
    assert "B is killed at 2 s. A: 3 ok; B: 2 lost, 1 ok, 1 refused." in pages[0]
