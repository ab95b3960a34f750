"""The same requests under several policies, through a gateway and in virtual time."""

import pytest

from kilocard.notebook.races import foretold, race
from kilocard.record import Kind
from kilocard.specs import case_from
from kilocard.workload import Arrivals, Fixed, Workload

CASE = case_from(
    {
        "model": "llama-3.1-8b",
        "card": "h100-sxm",
        "replicas": 3,
        "slow": {0: 10.0},
        "engine": {"max_num_seqs": 4},
        "workload": {"requests": 1, "rate_per_s": 1, "prompt_tokens": 16, "output_tokens": 8},
    }
)


def never_the_first(replicas, arrival, random):
    best = 1
    for r in range(2, len(replicas.active)):
        if replicas.active[r] < replicas.active[best]:
            best = r
    return best


def test_a_slow_engine_is_spared_alike_by_the_gateway_and_in_virtual_time() -> None:
    load = Workload(60, Fixed(16), Fixed(24), Arrivals(rate_per_s=30), seed=1)
    live = race(CASE, load, ["round-robin", "least-delay"])
    told = foretold(CASE, live["round-robin"], list(live))
    for runs, kind in ((live, Kind.EMULATED), (told, Kind.SIMULATED)):
        assert {run.stamp.kind for run in runs.values()} == {kind}
        assert all(
            (run.requests["status"] == "ok").all() and len(run.requests) == 60 for run in runs.values()
        )
        share = {name: (run.requests["replica"] == "0").mean() for name, run in runs.items()}
        assert share["round-robin"] == 20 / 60
        assert share["least-delay"] < 10 / 60


def test_a_policy_of_the_notebooks_own_runs_in_a_gateway_and_in_virtual_time() -> None:
    load = Workload(30, Fixed(16), Fixed(8), Arrivals(rate_per_s=30), seed=2)
    live = race(CASE, load, [never_the_first])
    told = foretold(CASE, live["never_the_first"], [never_the_first])
    for run in (live["never_the_first"], told["never_the_first"]):
        assert (run.requests["status"] == "ok").all()
        assert set(run.requests["replica"]) == {"1", "2"}


def test_a_load_that_is_yet_to_come_is_foretold_as_its_run_is() -> None:
    load = Workload(30, Fixed(16), Fixed(8), Arrivals(rate_per_s=30), seed=3)
    live = race(CASE, load, ["round-robin", "least-active"], fresh=False)
    assert [len(run.ok) for run in live.values()] == [30, 30]
    told = [foretold(CASE, asked, ["round-robin"]) for asked in (load, live["round-robin"])]
    before, after = (it["round-robin"].requests.sort_values("sent_s") for it in told)
    assert before["sent_s"].to_numpy(float) == pytest.approx(after["sent_s"].to_numpy(float), abs=1e-6)
    assert before["output_tokens"].tolist() == after["output_tokens"].tolist()
    assert before["replica"].tolist() == after["replica"].tolist()
