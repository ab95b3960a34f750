"""How fast, how large and how complete is a simulator? `kilocard simulate` beside its peers, on one core.

    python benchmarks/simulator.py            # some five minutes; wants an otherwise idle box
    python benchmarks/simulator.py --quick    # under a minute once the peers are installed; judges nothing

The fleet: 250 replicas of Llama-3.1-8B on an H100 each, 100,000 requests of 512 tokens in and 200 out,
Poisson, 10/s a replica, least active. Every simulator runs in a process of its own, pinned to one core, warm,
and is given the same arrivals; what is timed is the simulation, from requests in hand to all of them done, by
the wall and by the core. Ratios are of the core's time, so that a busy box does not decide them. The result
is kept with its stamp and with what each of them models. Exit 1 when Kilocard misses a bar.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from simulator_features import FEATURES
from simulator_loads import LOADS, QUICK_LOADS, Load
from simulator_rows import KILOCARD, SIMULATORS, Row, measure, pinned

from kilocard import __version__
from kilocard.box import describe_box

HERE = Path(__file__).parent
RESULT = HERE / "results" / "simulator.json"
QUICK_RESULT = HERE.parent / "_build" / "benchmarks" / "simulator.json"

LEAST_RATIO = 250
RATIO_TO = "vllm-sr-sim"
MOST_FIRST_CALL_S = 5.0
MOST_MILLION_S = 10.0

STEP_BY_STEP, SYNCHRONOUS = "kilocard, step by step", "kilocard, synchronous"
FIRST_CALL = (
    "simulate", "--model", "llama-3.1-8b", "--card", "h100-sxm", "--replicas", "4", "--rate", "40",
    "--prompt-tokens", "512", "--output-tokens", "200", "--requests", "5000", "--policy", "least-active",
    "--json",
)  # fmt: skip


def measure_all(loads: dict[str, Load]) -> Iterator[Row]:
    """Each simulator on its loads; then Kilocard step by step, and without what its peers do not model."""
    for simulator in SIMULATORS:
        for name in simulator.loads:
            yield measure(simulator, name, loads[name])
    fleet, one = loads["fleet"], loads["one replica"]
    yield replace(measure(KILOCARD, "fleet", fleet, step_by_step=True), simulator=STEP_BY_STEP)
    yield replace(measure(KILOCARD, "one replica", one, async_scheduling=False), simulator=SYNCHRONOUS)


def first_calls() -> dict[str, Any]:
    """`kilocard simulate` in a fresh process, from its start to its end: compilation included, then kept."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "KILOCARD_CACHE": cache}
        environment.pop("NUMBA_CACHE_DIR", None)
        return {
            "command": " ".join(("kilocard", *FIRST_CALL)),
            "empty_cache": _call(environment),
            "kept_cache": min((_call(environment) for _ in range(3)), key=lambda call: call["wall_s"]),
        }


def _call(environment: dict[str, str]) -> dict[str, float]:
    command = [*pinned(), sys.executable, "-c", "from kilocard.cli import main; main()", *FIRST_CALL]
    began, core_began = time.perf_counter(), _core_s()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return {"wall_s": time.perf_counter() - began, "core_s": _core_s() - core_began}


def _core_s() -> float:
    """What the commands that have ended have worked."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def of(rows: Sequence[Row], simulator: str, load: str) -> Row:
    """The row of a simulator on a load."""
    return next(row for row in rows if (row.simulator, row.load) == (simulator, load))


def ratio(rows: Sequence[Row], peer: str, load: str) -> float | None:
    """Kilocard's requests a core second over a peer's in the same run; None where the peer did not run."""
    ours, theirs = of(rows, "kilocard", load).requests_per_core_s, of(rows, peer, load).requests_per_core_s
    return ours / theirs if ours and theirs else None


def findings(rows: Sequence[Row], calls: dict[str, Any]) -> dict[str, Any]:
    """What the rows come to."""
    fleet, stepped = of(rows, "kilocard", "fleet"), of(rows, STEP_BY_STEP, "fleet")
    return {
        "ratio_is_of": "requests a second of the core's time",
        "ratio_to": {
            f"{peer.name}, {load}": ratio(rows, peer.name, load)
            for peer in SIMULATORS[1:]
            for load in peer.loads
        },
        "steps_of_the_fleet": fleet.steps,
        "equal_to_step_by_step": fleet.digest is not None and fleet.digest == stepped.digest,
        "million_requests_s": of(rows, "kilocard", "1,000 replicas").wall_s,
        "first_call": calls,
    }


def misses(found: dict[str, Any]) -> list[str]:
    """The bars that Kilocard misses; a peer that did not run is no bar."""
    measured = found["ratio_to"][f"{RATIO_TO}, fleet"]
    checks = {
        f"{LEAST_RATIO} x {RATIO_TO}": measured is None or measured >= LEAST_RATIO,
        "exact to the step": found["equal_to_step_by_step"],
        "first call": found["first_call"]["empty_cache"]["wall_s"] <= MOST_FIRST_CALL_S,
        "a million requests": (found["million_requests_s"] or MOST_MILLION_S + 1) <= MOST_MILLION_S,
    }
    return [name for name, holds in checks.items() if not holds]


def show(row: Row) -> str:
    """One line of the table."""
    about = f"{row.simulator:<23}{row.level:<8} {row.load:<33}"
    if row.problem:
        return f"{about}{row.problem}"
    return (
        f"{about}{row.requests_per_s:>9,.0f} requests/s ({row.requests_per_core_s:,.0f} a core s)"
        f"  {row.memory_mb:,.0f} MB"
        f"  TTFT {row.ttft_ms:6.2f}  TPOT {row.tpot_ms:6.3f}  E2E {row.e2e_ms:7.1f} ms"
        + (f"  {row.steps:,} steps" if row.steps else "")
        + (f"  {row.preemptions:,} preemptions" if row.preemptions else "")
        + (f"  {row.prefix_hit_ratio:.0%} prefix hits" if row.prefix_hit_ratio else "")
    )


def result(rows: Sequence[Row], found: dict[str, Any], quick: bool, started_at: str) -> dict[str, Any]:
    """Everything, with its stamp."""
    return {
        "stamp": {
            "kind": "measured",
            "box": describe_box(),
            "started_at": started_at,
            "kilocard_version": __version__,
            "quick": quick,
            "pinned_to_one_core": bool(pinned()),
        },
        "findings": found,
        "missed": misses(found),
        "rows": [
            {
                **asdict(row),
                "requests_per_s": row.requests_per_s,
                "requests_per_core_s": row.requests_per_core_s,
            }
            for row in rows
        ],
        "features": {name: asdict(features) for name, features in FEATURES.items()},
    }


def main() -> None:
    """Measure, show, keep, judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small loads, under a minute; judges nothing")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args()
    started_at, rows = datetime.now(UTC).isoformat(timespec="seconds"), []
    for row in measure_all(QUICK_LOADS if options.quick else LOADS):
        rows.append(row)
        print(show(row), file=sys.stderr if options.json else sys.stdout, flush=True)
    told = result(rows, findings(rows, first_calls()), options.quick, started_at)
    kept = QUICK_RESULT if options.quick else RESULT
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told) if options.json else summary(told["findings"]))
    sys.exit(f"Kilocard misses a bar: {told['missed']}" if told["missed"] and not options.quick else 0)


def summary(found: dict[str, Any]) -> str:
    """The findings in a few lines."""
    ratios = "\n".join(
        f"  {value:>6,.0f} x {name}" for name, value in found["ratio_to"].items() if value is not None
    )
    empty, kept = found["first_call"]["empty_cache"], found["first_call"]["kept_cache"]
    exact = "equal, to the last bit" if found["equal_to_step_by_step"] else "NOT equal"
    return (
        f"Kilocard simulates, in requests a core second:\n{ratios}\n"
        f"{found['steps_of_the_fleet']:,} steps of the fleet, {exact}, to making them one by one\n"
        f"a first call takes {empty['wall_s']:.1f} s with nothing compiled "
        f"({empty['core_s']:.1f} s of the core), {kept['wall_s']:.1f} s after that\n"
        f"a million requests on 1,000 replicas take {found['million_requests_s']:.1f} s"
    )


if __name__ == "__main__":
    main()
