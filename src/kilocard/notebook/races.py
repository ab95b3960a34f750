"""One load under several policies: through the gateway over emulated engines, and in virtual time."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kilocard.emulator import Emulated, emulated
from kilocard.fleet import simulate_case
from kilocard.gateway.process import gateway_over
from kilocard.load import replay
from kilocard.record import Run
from kilocard.routing.own import name_of
from kilocard.routing.own_file import written
from kilocard.routing.replicas import Policy
from kilocard.specs import Case
from kilocard.specs.case import case_from
from kilocard.workload import Workload


def race(
    case: Case, load: Workload, policies: Sequence[str | Policy], *, fresh: bool = True, **gateway: Any
) -> dict[str, Run]:
    """The same requests at the same times, under one policy after another, each before a gateway of its own.
    A policy is one of the gateway's, or a function of the notebook's own.

    Engines are emulated in real time, those that the case calls slow too; the gateway is a real one with the
    case's cap. `gateway` are settings of its section of the cluster file. Replicas are told by their number.
    Engines are `fresh` for each policy, or the same for all: for those that keep no prefixes.
    """
    runs = {}
    faults = [f"slow={times}@{engine}" for engine, times in case.slow.items()]
    bare = case.model_copy(update={"slow": {}, "cap": None})
    with tempfile.TemporaryDirectory(prefix="kilocard-race-") as folder:
        for turn in ([it] for it in policies) if fresh else [policies]:
            with emulated(bare, faults=faults) as engines:
                for policy in turn:
                    named = (
                        policy if isinstance(policy, str) else written([policy], Path(folder) / "own.py")[0]
                    )
                    cluster = cluster_of(engines, case.cap or 0, {"policy": named, **gateway})
                    with gateway_over(cluster) as running:
                        run = replay(running.url, engines.model, workloads=load)
                    runs[policy_name(policy)] = numbered(run, engines.urls)
    return runs


def foretold(case: Case, asked: Run | Workload, policies: Sequence[str | Policy]) -> dict[str, Run]:
    """The requests of a run, or of a load that is yet to come, in virtual time, under each policy."""
    runs = {}
    with tempfile.TemporaryDirectory(prefix="kilocard-race-") as folder:
        trace = _written_down(asked, Path(folder))
        for policy in policies:
            again = {**case.model_dump(exclude={"workload"}), "workload": {"trace": str(trace)}}
            if isinstance(policy, str):
                runs[policy], _ = simulate_case(case_from({**again, "policy": policy}))
            else:
                runs[policy_name(policy)], _ = simulate_case(case_from(again), policy)
    return runs


def _written_down(asked: Run | Workload, folder: Path) -> Path:
    """As a trace that a simulation reads; what prompts of a load share is left out."""
    if isinstance(asked, Run):
        trace = folder / "asked.parquet"
        asked.write(trace)
        return trace
    trace = folder / "asked.jsonl"
    rows = [
        {
            "timestamp": 1000 * (it.scheduled_s or 0.0),
            "input_length": it.prompt_tokens,
            "output_length": it.max_tokens,
        }
        for it in asked.draw()
    ]
    trace.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return trace


def policy_name(policy: str | Policy) -> str:
    """What tables and figures call a policy: a function of the notebook's own by its name."""
    return policy if isinstance(policy, str) else name_of(policy)


def cluster_of(engines: Emulated, cap: int, gateway: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster file of a gateway over these engines."""
    pool = {"name": "chat", "cap": cap, "replicas": engines.urls}
    return {"name": "race", "model": engines.model, "pools": [pool], "gateway": dict(gateway)}


def numbered(run: Run, urls: Sequence[str]) -> Run:
    """A run whose replicas are called by their number, as a simulation calls them."""
    numbers = {url.removeprefix("http://"): str(number) for number, url in enumerate(urls)}
    table = run.requests.copy()
    table["replica"] = table["replica"].map(numbers).astype("string")
    return replace(run, requests=table)
