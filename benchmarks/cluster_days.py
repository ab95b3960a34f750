"""A thousand cards for an hour or a day, in a process of its own: `cluster_days.py HOURS RATE_SHARE`.

250 replicas of a 70B on four H100s each, four gateways, the reference policy, cards that are not equal,
three classes, bursts, engines that are started anew in the low hours; a slow machine and a crash, and in a
day also a rack without power and a gateway that dies. Prints one JSON object.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from math import cos, pi
from typing import Any

from kilocard.cluster.simulate import simulate_scenario
from kilocard.cluster.summary import summary_of
from kilocard.specs.scenario import scenario_from

PEAK_PER_S, DEEP, PEAK_HOUR = 97.0, 0.4, 14
WARM_REQUESTS = 2000
CLUSTER: dict[str, Any] = {
    "name": "thousand",
    "model": "llama-3.1-70b",
    "slo": {"ttft_p99_s": 2.0, "tpot_p99_s": 0.05},
    "pools": [
        {
            "name": "chat",
            "replicas": 250,
            "card": "h100-sxm",
            "nodes": 125,
            "cap": 48,
            "engine": {"tensor_parallel_size": 4, "max_num_seqs": 64},
        }
    ],
    "gateway": {"gateways": 4},
    "lifecycle": {"restarts": {"every_h": 12, "begin": "02:00", "end": "05:00"}},
}
LENGTHS = {
    "prompt_tokens": {"kind": "lognormal", "mean_tokens": 1200, "cv": 1.5, "most_tokens": 16_000},
    "output_tokens": {"kind": "lognormal", "mean_tokens": 250, "cv": 1, "most_tokens": 2000},
    "arrivals": "gamma",
    "cv": 2.0,
    "priority": {0: 0.8, 1: 0.1, 2: 0.1},
}
OF_AN_HOUR = [
    {"kind": "slow", "at_s": 300, "for_s": 1800, "node": 7, "times": 3},
    {"kind": "crash", "at_s": 500, "replica": "chat-9"},
]
OF_A_DAY = [
    *OF_AN_HOUR,
    {"kind": "power", "at_s": 40_000, "for_s": 1200, "rack": 3},
    {"kind": "gateway", "at_s": 60_000, "for_s": 60, "gateway": 2},
]


def rate_per_s(hour: float) -> float:
    """A day has one crest and one trough."""
    return PEAK_PER_S * (1 - DEEP + DEEP * cos((hour - PEAK_HOUR) / 24 * 2 * pi))


def scenario(hours: int, share: float) -> Any:
    """So many hours from midnight on; one hour alone is that of the crest. `share` thins the traffic."""
    first = PEAK_HOUR if hours == 1 else 0
    stages = [
        {
            "rate_per_s": share * rate_per_s(first + hour),
            "end_rate_per_s": share * rate_per_s(first + hour + 1),
            "duration_s": 3600,
        }
        for hour in range(hours)
    ]
    return scenario_from(
        {
            "cluster": CLUSTER,
            "traffic": {"stages": stages, **LENGTHS},
            "faults": OF_AN_HOUR if hours == 1 else OF_A_DAY,
            "variance": 0.05,
            "begins_at_minute": 60 * first,
            "sample_s": 60,
        }
    )


def main() -> None:
    """Compile, then time the whole: draw, build, simulate, sum up."""
    hours, share = int(sys.argv[1]), float(sys.argv[2])
    small = {"requests": WARM_REQUESTS, "rate_per_s": 50, **LENGTHS}
    simulate_scenario(scenario_from({"cluster": CLUSTER, "traffic": small}))
    asked = scenario(hours, share)
    began, core_began = time.perf_counter(), time.process_time()
    outcome = simulate_scenario(asked)
    its = summary_of(outcome)
    told = {
        "hours": hours,
        "wall_s": time.perf_counter() - began,
        "core_s": time.process_time() - core_began,
        "loop_s": outcome.wall_s,
        "memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "arrived": its.arrived,
        "ended": its.ok + its.refused + its.timeouts + its.errors + its.in_flight,
        "ok": its.ok,
        "refused": its.refused,
        "timeouts": its.timeouts,
        "errors": its.errors,
        "goodput_ratio": its.goodput_ratio,
        "ttft_p99_s": its.ttft_s.p99,
        "tpot_p99_s": its.tpot_s.p99,
        "events": len(outcome.events),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
