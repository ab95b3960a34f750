"""Small clusters to try things on."""

from __future__ import annotations

from typing import Any

import numpy as np

from kilocard.cluster.books import OK, UNDER_WAY
from kilocard.cluster.simulate import Outcome, simulate_scenario
from kilocard.engine_model.compiled import NEVER_PS
from kilocard.specs.scenario import Scenario, scenario_from

TRAFFIC: dict[str, Any] = {
    "requests": 3000,
    "rate_per_s": 60,
    "prompt_tokens": 512,
    "output_tokens": {"kind": "lognormal", "mean_tokens": 100, "cv": 1, "most_tokens": 1000},
}
POOL: dict[str, Any] = {
    "name": "chat",
    "card": "h100-sxm",
    "replicas": 8,
    "cap": 48,
    "engine": {"max_num_seqs": 64},
}


def a_scenario(
    pool: dict[str, Any] | None = None,
    traffic: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    **changes: Any,
) -> Scenario:
    """Eight replicas behind two gateways under a light load, with changes."""
    its = {
        "name": "c",
        "model": "llama-3.1-8b",
        "pools": [POOL | (pool or {})],
        "gateway": {"gateways": 2},
    }
    return scenario_from(
        {"cluster": its | (cluster or {}), "traffic": TRAFFIC | (traffic or {}), "sample_s": 5, **changes}
    )


def simulated(*arguments: Any, **changes: Any) -> Outcome:
    return simulate_scenario(a_scenario(*arguments, **changes))


def require_conserved(outcome: Outcome) -> None:
    """Everybody who came has ended, once, and nothing of them is left anywhere."""
    ground, requests, replicas = outcome.ground, outcome.engines.tables.requests, outcome.engines.replicas
    came = requests.arrival_ps < NEVER_PS
    status = ground.books.status
    counted = int(ground.counts[1])
    assert counted == int(came.sum()) == int((status != UNDER_WAY).sum())
    assert not ground.views.columns.active.any()
    assert not ground.views.columns.prompt_tokens.any()
    assert np.abs(ground.views.columns.output_left).max() < 1e-6
    assert not ground.lines.counts.any()
    assert int(ground.lines.now[0]) == 0
    assert (replicas.free_blocks == replicas.kv_blocks).all()
    assert not replicas.occupied.any()
    assert not replicas.waiting.any()
    ok = requests[status == OK]
    assert (ok["first_ps"] > ok["arrival_ps"]).all()
    assert (ok["last_ps"] >= ok["first_ps"]).all()


def events_of(outcome: Outcome, what: str) -> list[tuple[float, str]]:
    return [(at_s, about) for at_s, event, about in outcome.events if event == what]
