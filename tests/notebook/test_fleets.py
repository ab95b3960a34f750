"""Fleets side by side: each asked the same, watched, and its requests' waits known."""

from math import inf
from pathlib import Path

from kilocard.notebook.fleets import Change, Settings, side_by_side
from kilocard.notebook.watching import GATEWAY, first_in, states_of, with_waits
from kilocard.record import Kind, Run, Stamp
from kilocard.specs import case_from
from kilocard.workload import Arrivals, Fixed, Workload

CASE = case_from(
    {
        "model": "llama-3.1-8b",
        "card": "h100-sxm",
        "replicas": 2,
        "workload": {"requests": 1, "rate_per_s": 1, "prompt_tokens": 16, "output_tokens": 8},
    }
)


def test_fleets_are_asked_alike_and_each_is_watched() -> None:
    load = Workload(60, Fixed(16), Fixed(24), Arrivals(40), seed=1, priority={"batch": 1.0})
    played = side_by_side(
        CASE, [load], {"open": Settings(), "held": Settings(cap=1)}, [Change(1.0, 0, {"slow": 2.0})]
    )
    asked = [run.run.requests.set_index("request_id")["priority"].to_dict() for run in played.values()]
    assert asked[0] == asked[1] and set(asked[0].values()) == {"batch"}
    for it in played.values():
        assert it.run.stamp.kind is Kind.EMULATED and len(it.changed_s) == 1
        assert set(it.run.requests["replica"].dropna()) == {"0", "1"}
        assert set(it.run.samples["replica"]) == {"0", "1", GATEWAY}
        assert (it.run.samples["running"] >= 0).all()
        answered = it.run.ok
        assert ((answered["queue_s"] >= 0) & (answered["queue_s"] < 60)).all()
    held = played["held"].run
    assert held.samples[held.samples["replica"] != GATEWAY]["running"].max() <= 1
    assert held.samples["waiting"].max() > 0


def test_waits_come_from_the_log_and_refusals_have_none(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        '{"request_id": "0-0", "queue_s": 0.25}\n{"reload": "done"}\n{"request_id": "0-1", "queue_s": null}\n'
    )
    stamp = Stamp(Kind.EMULATED, "m", "e", "1", "c", {"name": "b"}, "2026-11-30T00:00:00+00:00")
    rows = [{"request_id": f"0-{number}", "status": "ok", "sent_s": 0.0} for number in range(3)]
    waits = with_waits(Run.from_rows(rows, stamp), log).requests["queue_s"]
    assert waits[0] == 0.25 and waits[1:].isna().all()


def test_a_state_begins_when_it_is_first_seen_and_again_when_it_comes_back() -> None:
    stamp = Stamp(Kind.EMULATED, "m", "e", "1", "c", {"name": "b"}, "2026-11-30T00:00:00+00:00")
    seen = [(0.0, "up"), (1.0, "slow"), (2.0, "slow"), (3.0, "up"), (4.0, "slow")]
    samples = [{"t_s": t, "replica": "0", "state": state} for t, state in reversed(seen)]
    samples += [{"t_s": 0.5, "replica": "1", "state": "down"}]
    run = Run.from_rows([{"request_id": "1", "status": "ok", "sent_s": 0.0}], stamp, samples)
    assert states_of(run, "0") == [seen[0], seen[1], seen[3], seen[4]]
    assert (first_in(run, "0", "slow"), first_in(run, "0", "slow", 3.5), first_in(run, "0", "down")) == (
        1,
        4,
        inf,
    )
