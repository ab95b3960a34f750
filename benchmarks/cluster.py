"""How fast is a whole cluster simulated? `kilocard simulate SCENARIO.yaml` beside a peer, on one core.

    python benchmarks/cluster.py            # some four minutes; wants an otherwise idle box
    python benchmarks/cluster.py --quick    # under a minute once the peer is installed; judges nothing

The fleet is that of `simulator.py` (250 replicas of Llama-3.1-8B, 100,000 requests, least active), for
Kilocard with four gateways and everything that looks after a cluster switched on; vllm-sr-sim has neither.
Then a thousand cards for an hour and for a day (`cluster_days.py`). The result is kept with its stamp. Exit 1
when Kilocard misses a bar.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from result import now, parser_of, stamp, tell
from simulator import show
from simulator_loads import LOADS, QUICK_LOADS
from simulator_rows import SIMULATORS, Row, Simulator, measure, pinned

HERE = Path(__file__).parent
RESULT = HERE / "results" / "cluster.json"
QUICK_RESULT = HERE.parent / "_build" / "benchmarks" / "cluster.json"

PEER = next(it for it in SIMULATORS if it.name == "vllm-sr-sim")
OURS = Simulator("kilocard", "run_kilocard_cluster.py", None, ("fleet",))
POLICIES = ("least-active", "least-delay")
LEAST_RATIO = 100
MOST_DAY_S, MOST_HOUR_S, MOST_GIB = 60.0, 5.0, 4.0
LEAST_REQUESTS = 5_000_000


def fleets(quick: bool) -> Iterator[Row]:
    """The peer, then Kilocard by each policy."""
    load = (QUICK_LOADS if quick else LOADS)["fleet"]
    yield measure(PEER, "fleet", load)
    for policy in POLICIES:
        yield measure(OURS, f"fleet, {policy}", load, told={"policy": policy, "gateways": 4})


def spans(quick: bool) -> dict[str, dict[str, Any]]:
    """An hour and a day; a quick day has a hundredth of the requests."""
    share = "0.01" if quick else "1"
    return {name: _span(hours, share) for name, hours in (("hour", "1"), ("day", "24"))}


def _span(hours: str, share: str) -> dict[str, Any]:
    command = [*pinned(), sys.executable, str(HERE / "cluster_days.py"), hours, share]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer


def findings(rows: Sequence[Row], times: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the rows come to."""
    peer, *ours = rows
    return {
        "ratio_is_of": "requests a second of the core's time, to vllm-sr-sim's",
        "ratio": {
            its.load: its.requests_per_core_s / peer.requests_per_core_s
            if its.requests_per_core_s and peer.requests_per_core_s
            else None
            for its in ours
        },
        **times,
    }


def misses(found: dict[str, Any]) -> list[str]:
    """The bars that are missed; a peer that did not run is no bar."""
    ratio, day, hour = found["ratio"]["fleet, least-active"], found["day"], found["hour"]
    checks = {
        f"{LEAST_RATIO} x vllm-sr-sim": ratio is None or ratio >= LEAST_RATIO,
        "a day": day["wall_s"] <= MOST_DAY_S,
        "an hour": hour["wall_s"] <= MOST_HOUR_S,
        "memory": day["memory_gib"] <= MOST_GIB,
        "requests of the day": day["arrived"] >= LEAST_REQUESTS,
        "every request ends": all(it["arrived"] == it["ended"] for it in (day, hour)),
    }
    return [name for name, holds in checks.items() if not holds]


def lines_of(rows: Sequence[Row], found: dict[str, Any]) -> Iterator[str]:
    """The result in words."""
    yield from map(show, rows)
    for load, ratio in found["ratio"].items():
        yield f"{load}: {ratio:,.0f} x vllm-sr-sim" if ratio else f"{load}: no peer to compare with"
    for name in ("hour", "day"):
        it = found[name]
        yield (
            f"a thousand cards for one {name}: {it['arrived']:,} requests in {it['wall_s']:.1f} s, "
            f"{it['memory_gib']:.2f} GiB; {it['ok']:,} ok, {it['errors']} errors, {it['refused']} refused"
        )


def main() -> None:
    """Measure, show, keep, judge."""
    options = parser_of(__doc__, "small loads, under a minute; judges nothing").parse_args()
    started_at = now()
    rows = list(fleets(options.quick))
    found = findings(rows, spans(options.quick))
    missed = [] if options.quick else misses(found)
    told = {
        "stamp": stamp("measured", started_at, quick=options.quick, pinned_to_one_core=bool(pinned())),
        "findings": found,
        "missed": missed,
        "rows": [asdict(row) | {"requests_per_core_s": row.requests_per_core_s} for row in rows],
    }
    tell(told, lines_of(rows, found), QUICK_RESULT if options.quick else RESULT, options.json)
    sys.exit(f"Kilocard misses a bar: {missed}" if missed else 0)


if __name__ == "__main__":
    main()
