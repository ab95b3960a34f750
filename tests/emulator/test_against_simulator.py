"""One engine model: driven in real time by the load generator, and in virtual time by the simulator."""

from typing import Any

import numpy as np
import pandas as pd

from kilocard.emulator import emulated
from kilocard.engine_model.calibration import calibration_for
from kilocard.fleet.result import as_run
from kilocard.fleet.simulate import simulate_traffic
from kilocard.fleet.traffic import NOBODY, Paths, Traffic
from kilocard.load import replay
from kilocard.record import Kind, Run
from kilocard.specs import Case, case_from
from kilocard.workload import Arrivals, LogNormal, Workload

MOST_DIFFERENCE = 0.03
PERCENTILES = (50, 90)
LOAD = Workload(60, LogNormal(500, 0.5, 3000), LogNormal(30, 0.5, 100), Arrivals(10.0), seed=11)


def case() -> Case:
    return case_from(
        {
            "model": "qwen3-14b",
            "card": "l40s",
            "engine": {"max_num_seqs": 24, "max_num_batched_tokens": 1024},
            "workload": {"requests": 1, "rate_per_s": 1, "prompt_tokens": 1, "output_tokens": 1},
        }
    )


def traffic_of(load: Workload) -> Traffic:
    """What the load generator sends, as the simulator takes it."""
    requests = load.draw()
    count, nothing = len(requests), np.zeros(len(requests), np.int64)
    columns = ("scheduled_s", "prompt_tokens", "max_tokens")
    arrival_s, prompt, output = (np.array([getattr(one, name) for one in requests]) for name in columns)
    none = np.zeros(0, np.int64)
    paths = Paths(nothing, nothing, none, none)
    return Traffic(
        arrival_s, prompt, output, nothing, nothing, np.full(count, NOBODY), np.zeros(count), paths
    )


def latencies(run: Run) -> dict[str, pd.Series]:
    rows: Any = run.ok
    first, last, sent = rows["first_token_s"], rows["last_token_s"], rows["sent_s"]
    tpot = ((last - first) / (rows["output_tokens"] - 1))[rows["output_tokens"] > 1]
    return {"ttft": first - sent, "tpot": tpot, "e2e": last - sent}


def differences(asked: Case, foretold: dict[str, pd.Series]) -> dict[tuple[str, int], float]:
    """How far each percentile of a run on an emulated engine is from what was foretold, as shares."""
    with emulated(asked) as engines:
        run = replay(engines.url, workloads=LOAD)
    assert run.stamp.kind is Kind.EMULATED
    assert len(run.ok) == LOAD.requests
    assert run.ok["output_tokens"].sum() == sum(request.max_tokens for request in LOAD.draw())
    seen = latencies(run)
    return {
        (name, percentile): float(np.percentile(seen[name], percentile))
        / float(np.percentile(foretold[name], percentile))
        - 1
        for name in seen
        for percentile in PERCENTILES
    }


def test_emulated_and_simulated_latencies_agree_within_three_percent() -> None:
    """A busy machine delays one side and never the other, so the nearest of three runs is judged."""
    asked = case()
    calibration = calibration_for(str(asked.card))
    simulated = simulate_traffic(asked, traffic_of(LOAD), calibration)
    foretold = latencies(as_run(asked, simulated, calibration))
    for _ in range(3):
        found = differences(asked, foretold)
        if max(map(abs, found.values())) <= MOST_DIFFERENCE:
            return
    raise AssertionError(found)
