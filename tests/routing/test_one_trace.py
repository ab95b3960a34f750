"""The gateway and the simulator decide alike: a simulated run, replayed through the gateway's own pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kilocard.engine_model.calibration import calibration_for
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.fleet.simulate import Simulated, simulate_traffic
from kilocard.fleet.traffic import draw_traffic
from kilocard.gateway.member import Member
from kilocard.gateway.pool import Pool
from kilocard.routing.policies import POLICIES, REFERENCE
from kilocard.routing.replicas import Arrival
from kilocard.specs import case_from

REPLICAS, SEED = 4, 7
FIRST, ARRIVES, ENDS = range(3)
"""What the gateway sees first of what happens at once."""


def simulated(policy: str) -> Simulated:
    case = case_from(
        {
            "model": "qwen3-8b", "card": "h100-sxm", "replicas": REPLICAS, "policy": policy, "seed": SEED,
            "slow": {2: 4.0},
            "workload": {
                "rate_per_s": 12, "requests": 150, "prompt_tokens": 900,
                "turns": {"count": 3, "think_s": 0.4}, "system_prompts": {"count": 3, "tokens": 600},
                "output_tokens": {"kind": "lognormal", "mean_tokens": 80, "cv": 1.0, "most_tokens": 500},
            },
        }
    )  # fmt: skip
    return simulate_traffic(case, draw_traffic(case.workload, SEED), calibration_for("h100-sxm", None))


def events(requests: Any) -> list[tuple[int, int, int, int, int]]:
    """All that a gateway sees, in order; of those that end together, the last that was let in goes first."""
    seen = []
    for row in requests:
        n = int(row.number)
        seen.append((int(row.arrival_ps), ARRIVES, 0, n, n))
        seen.append((int(row.first_ps), FIRST, 0, n, n))
        seen.append((int(row.last_ps), ENDS, int(row.replica), -int(row.arrival_ps), n))
    return sorted(seen)


def replayed(policy: str, run: Simulated) -> tuple[list[int], list[int]]:
    """Whom the simulator chose, and whom the gateway's pool chooses with the same to go by."""
    tables = run.engines.tables
    pool = Pool("pool", "model", policy, SEED)
    members = [Member(str(r), "", 0, 0, None) for r in range(REPLICAS)]  # type: ignore[arg-type]
    for member in members:
        pool.add(member)
    chosen, named, uncached, marks = [], [], {}, {}
    for at_ps, kind, _, _, n in events(tables.requests):
        row, now_s = tables.requests[n], at_ps / PICOSECONDS
        member = members[int(row.replica)]
        if kind == ARRIVES:
            path = tables.paths[int(row.path_at) : int(row.path_at + row.path_length)]
            keys = np.array(path.stream, np.int64)
            ends = np.minimum(path.end_tokens, row.prompt - 1)
            arrival = Arrival(int(row.prompt), int(row.output), int(keys[0]), int(row.priority))
            choice = pool.choose(arrival, keys, ends)
            chosen.append(int(row.replica))
            named.append(-1 if choice is None else choice.row)
            uncached[n] = pool.sent(member, arrival, now_s)
            marks[n] = pool.mark(member, now_s)
            pool.remember(member, keys, np.minimum(path.end_tokens, row.prompt + row.output))
        elif kind == FIRST:
            pool.began(member, uncached[n], (at_ps - int(row.arrival_ps)) / PICOSECONDS, marks[n])
            marks[n] = pool.mark(member, now_s)
        else:
            seconds = (at_ps - int(row.first_ps)) / PICOSECONDS
            pool.progressed(member, int(row.output) - 1, seconds, float(row.output), marks[n], now_s)
            pool.ended(member, 0, 0.0, now_s)
    assert (pool.replicas.active == 0).all() and (pool.replicas.prompt_tokens == 0).all()
    return chosen, named


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"short-queue-long-cache"}))
def test_both_make_the_same_choices(policy: str) -> None:
    chosen, named = replayed(policy, simulated(policy))
    assert named == chosen
    assert len(set(chosen)) > 1


def test_the_replay_would_see_another_policy() -> None:
    run = simulated(REFERENCE)
    chosen, named = replayed("prefix-affinity", run)
    assert named != chosen
