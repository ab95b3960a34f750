"""How long a collective may take before its engine is given up."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kilocard.errors import KilocardError

SOONEST, LATEST = 5, 10
"""Times the normal time: under 5 a busy moment looks like a dead rank, over 10 a dead rank looks busy."""
LEAST_S = 1
MOST_NORMAL_S = 10**6
"""A dozen days: no step takes as long, and as a time-out it would be none."""
CAVEATS = (
    "a rank waits in a collective for the slowest rank's whole step: take a step's normal time (--step-s),",
    "not the wire's alone; at the start it waits for loading and graph capture: never set less than that",
)


@dataclass(frozen=True, slots=True)
class Default:
    """A limit that holds unless set, and where that is written."""

    name: str
    seconds: int
    set_by: str
    source: str


DEFAULT_TIMEOUTS = (
    Default(
        "NCCL collective",
        600,
        "--distributed-timeout-seconds",
        "torch ProcessGroupNCCL.hpp, vllm ParallelConfig",
    ),
    Default(
        "gloo collective", 1800, "--cpu-distributed-timeout-seconds", "torch.distributed, vllm ParallelConfig"
    ),
    Default("step of a worker", 300, "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", "vllm envs.py"),
)


def collective_timeout_s(normal_s: float) -> tuple[int, int]:
    """From 5 to 10 times the longest normal time, in whole seconds rounded up, never under one."""
    if not 0 < normal_s <= MOST_NORMAL_S:
        raise KilocardError(
            f"a normal time of {normal_s} s: give a positive number of seconds up to {MOST_NORMAL_S}"
        )
    soonest, latest = (max(math.ceil(times * normal_s), LEAST_S) for times in (SOONEST, LATEST))
    return soonest, latest
