"""Does a service lose requests while its engines are replaced, killed, tried on, and its supervisor dies?

    python benchmarks/service.py            # two real engines of the book's small model, some ten minutes
    python benchmarks/service.py --quick    # emulated engines, under a minute; keeps nothing
    python benchmarks/service.py --json     # the result on stdout

`data/clusters/laptop.yaml`, on free ports, by `kilocard up`. First `kilocard bench` through its gateway. Then
requests at a steady rate while: every engine is started anew (`kilocard roll`); an engine's process gets
SIGKILL; the supervisor gets SIGKILL, and the next one takes up what runs; a changed version is slower, and is
taken back; one is as good, and goes through. Every request ends as ok or as an error that is told as one;
only what was in flight at the engine that was killed may be lost. Exit 1 where that does not hold.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from result import now, parser_of, stamp, tell

from kilocard.notebook import rollouts
from kilocard.notebook.rollouts import Rollout
from kilocard.record import Status
from kilocard.supervisor.process import AtWork, supervised

RESULT = Path(__file__).parent / "results" / "service.json"
CLUSTER = Path(__file__).parents[1] / "data" / "clusters" / "laptop.yaml"
SLOWER = {"max_num_batched_tokens": 16, "max_num_seqs": 16}
AS_GOOD = {"max_num_batched_tokens": 1024, "max_num_seqs": 32}
CANARY = {"share": 0.5, "least_requests": 12, "within_s": 180, "slower_ratio": 1.5}


@dataclass(frozen=True, slots=True)
class Plan:
    """The rate of requests, and seconds of them after a change is over."""

    is_emulated: bool
    rate_per_s: float
    prompt_tokens: int
    output_tokens: int
    patience_s: float


REAL = Plan(False, 1.0, 256, 12, 110)
QUICK = Plan(True, 12.0, 128, 24, 20)


def play(plan: Plan) -> list[dict[str, Any]]:
    """A row for each act."""
    cluster = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))
    cluster["lifecycle"]["canary"] |= CANARY
    if plan.is_emulated:
        cluster["lifecycle"] |= {"ready": {"every_s": 0.1}, "roll": {"verify_s": 0.5}}
        cluster["lifecycle"]["canary"]["samples"] = []
    began_s = time.monotonic()
    with supervised(cluster, is_emulated=plan.is_emulated) as service:
        rows = [{"act": "ready", "good": True, "seconds": time.monotonic() - began_s}, _bench(service, plan)]
        pids = _pids(service)
        rows.append(_act("roll", service, plan, service.roll, seed=1) | _renewed(service, pids))
        rows.append(_killed(service, plan))
        rows.append(_orphaned(service, plan))
        rows.append(_tried("slower canary", service, plan, "v2", SLOWER, {"v1"}))
        rows.append(_tried("good canary", service, plan, "v3", AS_GOOD, {"v3"}))
    return rows


def _bench(service: AtWork, plan: Plan) -> dict[str, Any]:
    words = ["bench", "--url", service.url, "--concurrency", "1,4", "--requests", "8", "--json"]
    words += ["--prompt-tokens", str(plan.prompt_tokens), "--output-tokens", str(plan.output_tokens)]
    done = subprocess.run(
        [sys.executable, "-m", "kilocard", *words], capture_output=True, text=True, check=False
    )
    told = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip()}
    return {"act": "kilocard bench", "good": done.returncode == 0, "told": told}


def _act(
    name: str, service: AtWork, plan: Plan, change: Callable[[], None], seed: int, may_lose: int = 0
) -> dict[str, Any]:
    """Requests through a change. Each lost one is told as one, and no answer is short."""
    rolled = rollouts.rolled(
        service,
        "smollm2-135m",
        change,
        rate_per_s=plan.rate_per_s,
        for_s=plan.patience_s,
        prompt_tokens=plan.prompt_tokens,
        output_tokens=plan.output_tokens,
        seed=seed,
    )
    return _row(name, rolled, may_lose)


def _row(name: str, rolled: Rollout, may_lose: int) -> dict[str, Any]:
    table, ok, lost = rolled.run.requests, rolled.run.ok, rolled.lost
    is_whole = bool((ok["output_tokens"] == ok["max_tokens"]).all())
    is_told = bool(lost["error"].notna().all())
    return {
        "act": name,
        "good": len(lost) <= may_lose and is_whole and is_told,
        "requests": len(table),
        "ok": int((table["status"] == Status.OK).sum()),
        "lost": len(lost),
        "may_lose": may_lose,
        "lost_at": sorted(set(lost["replica"].dropna())),
        "took_s": round(rolled.took_s, 1),
        "fewest_serving": rolled.fewest,
        "reasons": list(dict.fromkeys(_placeless(it["reason"]) for it in rolled.events if it.get("reason"))),
    }


def _placeless(reason: str) -> str:
    """Without the folder of this one run."""
    return re.sub(r"/\S*/", "", reason)


def _renewed(service: AtWork, before: dict[str, int]) -> dict[str, Any]:
    after = _pids(service)
    return {"renewed": sorted(name for name in before if before[name] != after.get(name))}


def _killed(service: AtWork, plan: Plan) -> dict[str, Any]:
    held: list[int] = []

    def kill() -> None:
        service.await_that(lambda: rollouts.in_flight(service, "chat-0") > 0)
        held.append(rollouts.in_flight(service, "chat-0"))
        rollouts.kill(service, "chat-0")

    row = _act("kill -9 of an engine", service, plan, kill, seed=2, may_lose=1000)
    most = held[0] + 1  # one more may have come between the look and the kill
    is_its = set(row["lost_at"]) <= {"chat-0"}
    return row | {"held": held[0], "may_lose": most, "good": row["good"] and row["lost"] <= most and is_its}


def _orphaned(service: AtWork, plan: Plan) -> dict[str, Any]:
    before = _pids(service)

    def kill_and_start() -> None:
        service.kill()
        time.sleep(plan.patience_s / 10)
        service.start()
        service.await_that(lambda: any(row["event"] == "taken up" for row in service.events()))

    row = _act("kill -9 of the supervisor", service, plan, kill_and_start, seed=3)
    is_same = _pids(service) == before
    return row | {"taken_up": is_same, "good": row["good"] and is_same}


def _tried(
    name: str, service: AtWork, plan: Plan, version: str, engine: dict[str, Any], left: set[str]
) -> dict[str, Any]:
    def change() -> None:
        service.change(version=version, engine={**service.cluster["engine"], **engine})
        rollouts.await_end(service, "trying")

    row = _act(name, service, plan, change, seed=4)
    serving = rollouts.versions(service)
    return row | {"versions": sorted(serving), "good": row["good"] and serving == left}


def _pids(service: AtWork) -> dict[str, int]:
    return {name: it.kept.program_pid for name, it in service.engines().items() if it.kept}


def show(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each."""
    told = []
    for row in rows:
        verdict = "ok  " if row["good"] else "FAIL"
        if "requests" in row:
            about = f"{row['ok']} of {row['requests']} ok, {row['lost']} lost, {row['took_s']} s"
            about += f", at the least {row['fewest_serving']} served"
            about += f"; {'; '.join(row['reasons'])}" if row["reasons"] else ""
        else:
            about = f"{row['seconds']:.0f} s" if "seconds" in row else ""
        told.append(f"{verdict} {row['act']:<26} {about}")
    return told


def main() -> None:
    """Play, show, keep."""
    options = parser_of(__doc__, "emulated engines; nothing is kept").parse_args()
    plan, started_at = (QUICK if options.quick else REAL), now()
    rows = play(plan)
    result = {"stamp": stamp("emulated" if plan.is_emulated else "measured", started_at), "rows": rows}
    tell(result, show(rows), None if options.quick else RESULT, options.json)
    sys.exit(0 if all(row["good"] for row in rows) else 1)


if __name__ == "__main__":
    main()
