"""Kilocard's whole cluster on a load: gateways, health, slow ejection, metrics, caps, all switched on."""

from __future__ import annotations

import hashlib
from array import array
from typing import Any

from clock import latencies, measure

from kilocard.cluster.result import as_run
from kilocard.cluster.simulate import Outcome, simulate_scenario
from kilocard.specs.scenario import Scenario, scenario_from

loops_s: list[float] = []


def prepare(load: dict[str, Any], arrival_s: array) -> Scenario:
    """The load as a scenario of as many requests as there are arrivals."""
    case = load["case"]
    demand = {name: value for name, value in case["workload"].items() if value is not None}
    seats = case["engine"]["max_num_seqs"]
    pool = {
        "name": "all",
        "card": case["card"],
        "replicas": case["replicas"],
        "cap": seats,
        "engine": {"max_num_seqs": seats},
    }
    gateway = {"gateways": load["gateways"], "policy": load["policy"]}
    cluster = {"name": "fleet", "model": case["model"], "pools": [pool], "gateway": gateway}
    traffic = {**demand, "requests": len(arrival_s)}
    return scenario_from({"cluster": cluster, "traffic": traffic, "variance": 0.0, "seed": case["seed"]})


def simulate(prepared: Scenario) -> Outcome:
    """Draw, build and run; the loop's own time is noted beside."""
    done = simulate_scenario(prepared)
    loops_s.append(done.wall_s)
    return done


def predicted(prepared: Scenario, done: Outcome) -> dict[str, Any]:
    """The means, and what the engines did."""
    requests, replicas = done.engines.tables.requests, done.engines.replicas
    table = as_run(done).requests
    first_s, last_s = table["first_token_s"] - table["sent_s"], table["last_token_s"] - table["sent_s"]
    means = latencies(list(first_s), list((last_s - first_s) / (table["output_tokens"] - 1)), list(last_s))
    return means | {
        "loop_s": min(loops_s[1:]),
        "steps": int(replicas.steps.sum()),
        "preemptions": int(replicas.preemptions.sum()),
        "prefix_hit_ratio": 0.0,
        "digest": hashlib.sha256(requests.tobytes()).hexdigest(),
    }


measure(prepare, simulate, predicted)
