"""What every simulator of the comparison is measured with, in its own process: warm, the simulation alone.

Plain Python without packages, since it runs in the peers' environments: `run_X.py LOAD.json ANSWER.json`.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARM_UP_REQUESTS = 200


def peak_memory_mb() -> float:
    """The most memory this process has held."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6
    except (OSError, IndexError, ValueError):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def mean(values: list[float]) -> float:
    """Of at least one."""
    return sum(values) / len(values)


def latencies(ttft_s: list[float], tpot_s: list[float], e2e_s: list[float]) -> dict[str, Any]:
    """The means that the simulators are compared by, over the requests that were finished."""
    return {
        "finished": len(e2e_s),
        "ttft_s": mean(ttft_s),
        "tpot_s": mean(tpot_s),
        "e2e_s": mean(e2e_s),
    }


def measure(
    prepare: Callable[[dict[str, Any], array], Any],
    simulate: Callable[[Any], Any],
    predicted: Callable[[Any, Any], dict[str, Any]],
) -> None:
    """Simulate a warm-up, then the load as often as it says; write times, memory and predictions."""
    load = json.loads(Path(sys.argv[1]).read_text())
    answer_file = Path(sys.argv[2])
    arrival_s = array("d", Path(load["arrivals"]).read_bytes())
    simulate(prepare(load, arrival_s[:WARM_UP_REQUESTS]))
    gc.collect()
    idle_mb = peak_memory_mb()
    walls_s, cores_s = [], []
    for _ in range(load["repeats"]):
        prepared = prepare(load, arrival_s)
        began, core_began = time.perf_counter(), time.process_time()
        done = simulate(prepared)
        walls_s.append(time.perf_counter() - began)
        cores_s.append(time.process_time() - core_began)
    memory_mb = peak_memory_mb()
    answer = {"walls_s": walls_s, "cores_s": cores_s, "memory_mb": memory_mb, "idle_memory_mb": idle_mb}
    answer_file.write_text(json.dumps(answer | predicted(prepared, done)))
