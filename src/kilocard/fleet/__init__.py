"""The cluster in virtual time."""

from __future__ import annotations

from typing import Any

from kilocard.engine_model.calibration import Calibration, calibration_for
from kilocard.fleet.result import as_run, result_of
from kilocard.fleet.simulate import simulate_traffic
from kilocard.fleet.traffic import draw_traffic
from kilocard.record import Run
from kilocard.routing.replicas import Policy
from kilocard.specs import Case

__all__ = ["simulate_case"]


def simulate_case(
    case: Case, policy: Policy | None = None, calibration: Calibration | None = None
) -> tuple[Run, dict[str, Any]]:
    """The run of a case, and what it comes to; `policy` stands in for the one the case names."""
    found = calibration or calibration_for(str(case.card), case.calibration)
    simulated = simulate_traffic(case, draw_traffic(case.workload, case.seed), found, policy)
    run = as_run(case, simulated, found)
    return run, result_of(case, run, simulated, found)
