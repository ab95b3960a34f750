"""Kilocard on a load: the case it was drawn from, with the whole engine model on."""

from __future__ import annotations

import hashlib
from array import array
from typing import Any

from clock import latencies, measure

from kilocard.engine_model.calibration import calibration_for
from kilocard.fleet.result import as_run
from kilocard.fleet.simulate import ALL_STEPS, Simulated, simulate_traffic
from kilocard.fleet.traffic import Traffic, draw_traffic
from kilocard.specs import Case, case_from

loops_s: list[float] = []


def prepare(load: dict[str, Any], arrival_s: array) -> tuple[Case, Traffic, int]:
    """A case with as many requests as there are arrivals, and its traffic."""
    case = case_from(load["case"])
    demand = case.workload.model_copy(update={"requests": len(arrival_s)})
    case = case.model_copy(update={"workload": demand})
    return case, draw_traffic(demand, case.seed), 1 if load["step_by_step"] else ALL_STEPS


def simulate(prepared: tuple[Case, Traffic, int]) -> Simulated:
    """Build the tables and run the loop, whose own time is noted beside."""
    case, traffic, most_steps = prepared
    calibration = calibration_for(case.card, case.calibration)
    done = simulate_traffic(case, traffic, calibration, most_steps=most_steps)
    loops_s.append(done.wall_s)
    return done


def predicted(prepared: tuple[Case, Traffic, int], done: Simulated) -> dict[str, Any]:
    """The means, and what the engines did."""
    case, (requests, replicas) = prepared[0], (done.engines.tables.requests, done.engines.replicas)
    table = as_run(case, done, calibration_for(case.card, case.calibration)).requests
    first_s, last_s = table["first_token_s"] - table["sent_s"], table["last_token_s"] - table["sent_s"]
    means = latencies(list(first_s), list((last_s - first_s) / (table["output_tokens"] - 1)), list(last_s))
    return means | {
        "loop_s": min(loops_s[1:]),
        "steps": int(replicas.steps.sum()),
        "preemptions": int(replicas.preemptions.sum()),
        "prefix_hit_ratio": float(replicas.hit_tokens.sum() / replicas.asked_tokens.sum()),
        "digest": hashlib.sha256(requests.tobytes()).hexdigest(),
    }


measure(prepare, simulate, predicted)
