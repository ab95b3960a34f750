"""Jumping over runs of like steps changes nothing, to the last bit; neither does plain Python."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from demands import SHARING, demands, draw_demand, engines, with_room
from engine_tables import ALL_STEPS, build, run
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_engine import Settings

from kilocard.engine_model.state import Engines

SEEN = ("arrival_ps", "scheduled_ps", "first_ps", "last_ps", "cached", "preemptions", "replica")
COUNTED = ("steps", "busy_ps", "computed_tokens", "hit_tokens", "asked_tokens", "preemptions", "free_blocks")


def digest(engines: Engines) -> str:
    """All that a simulation has to tell."""
    rows = [engines.tables.requests[name] for name in SEEN] + [engines.replicas[name] for name in COUNTED]
    return hashlib.sha256(b"".join(row.tobytes() for row in rows)).hexdigest()


@given(
    engines, demands(most=40), st.integers(1, 3), st.sampled_from(["random", "round-robin", "least-active"])
)
@settings(max_examples=120)
def test_any_jump_equals_step_by_step(engine: Settings, asked: list, replicas: int, policy: str) -> None:
    engine = with_room(engine, asked)
    digests = {
        steps: digest(run(build(engine, asked, replicas), steps, policy)) for steps in (1, 7, ALL_STEPS)
    }
    assert len(set(digests.values())) == 1


CASES = [
    (Settings(lag=lag, by_priority=priority, kv_blocks=blocks, max_num_seqs=6), sharing)
    for lag, priority, blocks, sharing in [
        (1, 0, 2, "none"),
        (0, 1, 3, "system prompts"),
        (1, 1, 1, "turns"),
        (1, 0, 40, "repeated prompts"),
    ]
]


def digests() -> list[str]:
    """Of a few cases, small caches among them."""
    found = []
    for seed, (engine, sharing) in enumerate(CASES):
        asked = draw_demand(sharing, 60, 200_000_000, seed)
        found.append(digest(run(build(with_room(engine, asked), asked, 2), policy="least-active", seed=seed)))
    return found


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert digests() == digests()


def test_plain_python_gives_the_same_bytes() -> None:
    program = "import json, test_jumps; print(json.dumps(test_jumps.digests()))"
    plain = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(plain.stdout) == digests()


@pytest.mark.parametrize("sharing", SHARING)
def test_the_entries_may_grow_at_any_moment(sharing: str) -> None:
    asked = draw_demand(sharing, 200, 2_000_000_000, 1)
    engine = with_room(Settings(kv_blocks=300), asked)
    tight, ample = build(engine, asked, 2, entries=32), build(engine, asked, 2, entries=4096)
    grown = run(tight)
    assert digest(grown) == digest(run(ample))
    if sharing == "turns":
        assert len(grown.tables.entries) > len(tight.tables.entries)
