"""The cluster in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kilocard.engine_model.calibration import Calibration, calibration_of_case
from kilocard.fleet.result import as_run, in_a_row, result_of
from kilocard.fleet.simulate import simulate_traffic
from kilocard.fleet.traffic import draw_parts
from kilocard.record import Run
from kilocard.routing.replicas import Policy
from kilocard.specs import Case

__all__ = ["simulate_case"]


def simulate_case(
    case: Case,
    policy: Policy | None = None,
    calibration: Calibration | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Run, dict[str, Any]]:
    """The run of a case, and what it comes to; `policy` stands in for the one the case names.

    `progress` is told every now and then how many requests of how many are done.
    """
    found = calibration or calibration_of_case(case)
    parts = draw_parts(case.workload, case.seed)
    total, done, simulated = sum(map(len, parts)), 0, []
    for traffic in parts:
        tell = (lambda now, before=done: progress(before + now, total)) if progress else None
        simulated.append(simulate_traffic(case, traffic, found, policy, tell))
        done += len(traffic)
    run = in_a_row([as_run(case, part, found) for part in simulated])
    return run, result_of(case, run, simulated, found)
