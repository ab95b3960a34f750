"""What was measured of a case, and what the engine model makes of the same case: the pairs that a
calibration fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kilocard.engine_model.calibration import Calibration
from kilocard.engine_model.coefficients import Coefficients
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.errors import KilocardError
from kilocard.fleet.simulate import Simulated, simulate_traffic
from kilocard.fleet.traffic import Traffic, draw_closed_loop, draw_traffic
from kilocard.record import Status
from kilocard.specs import Case
from kilocard.specs.demand import Stage
from kilocard.stats.window import output_tokens_per_s, steady_window

Floats = NDArray[np.float64]

WHOLE_RUN = -1
"""The stage number that stands for all stages together."""

STATISTICS: Mapping[str, Callable[[Floats], float]] = {
    "mean": lambda values: float(values.mean()),
    "p50": lambda values: float(np.quantile(values, 0.5)),
    "p90": lambda values: float(np.quantile(values, 0.9)),
    "p99": lambda values: float(np.quantile(values, 0.99)),
}

NOISE: Mapping[str, float] = {
    "e2e_s": 0.01,
    "tpot_s": 0.01,
    "itl_s": 0.01,
    "output_tokens_per_s": 0.02,
    "ttft_s": 0.03,
}
"""Relative error expected of a measured value, from repeats: what a fit weighs it by."""


@dataclass(frozen=True, slots=True)
class Value:
    """One measured number: `stage` of the run (or WHOLE_RUN), what (`ttft_s`, `e2e_s` …), and which
    statistic of it."""

    stage: int
    metric: str
    statistic: str
    measured: float

    @property
    def label(self) -> str:
        """What it is, in words."""
        where = "whole run" if self.stage == WHOLE_RUN else f"stage {self.stage}"
        return f"{where}, {self.metric} {self.statistic}"

    def __post_init__(self) -> None:
        if self.metric not in NOISE or self.statistic not in STATISTICS:
            known = ", ".join(NOISE)
            raise KilocardError(
                f"cannot fit to {self.metric}.{self.statistic}: known are the mean, p50, p90, p99 of {known}"
            )
        if not 0 < self.measured < np.inf:
            raise KilocardError(
                f"measured {self.metric}.{self.statistic} is {self.measured}: give a number above 0"
            )


@dataclass(frozen=True)
class Observation:
    """A case, and what was measured of it."""

    name: str
    case: Case
    values: tuple[Value, ...]

    @cached_property
    def traffic(self) -> tuple[Traffic, ...]:
        """The case's requests: one table for an open loop, one a stage for closed ones."""
        return case_traffic(self.case)

    def level(self, stage: int) -> Stage | None:
        """The load of a stage of the case; null of the whole run, and of a trace."""
        levels = () if self.case.workload.trace is not None else self.case.workload.all_stages
        return levels[stage] if 0 <= stage < len(levels) else None

    def label(self, value: Value) -> str:
        """What one of the values is, in words, by the load of its stage."""
        level = self.level(value.stage)
        return f"{level_name(level)}, {value.metric} {value.statistic}" if level else value.label

    @property
    def measured(self) -> Floats:
        """The measured numbers."""
        return np.array([value.measured for value in self.values])

    @property
    def noise(self) -> Floats:
        """The error expected of each."""
        return np.array([NOISE[value.metric] for value in self.values])

    def predict(self, coefficients: Coefficients) -> Floats:
        """The same numbers from the engine model."""
        calibration = Calibration("being fitted", "run", coefficients, "")
        runs = [simulate_traffic(self.case, traffic, calibration) for traffic in self.traffic]
        columns = [_columns(run, coefficients.request_s) for run in runs]
        return np.array([_statistic(columns, value) for value in self.values])

    def compare(self, coefficients: Coefficients) -> pd.DataFrame:
        """One row a value: measured, predicted, and error = predicted ÷ measured − 1."""
        table = pd.DataFrame([asdict(value) for value in self.values])
        table["predicted"] = self.predict(coefficients)
        table["error"] = table["predicted"] / table["measured"] - 1
        return table


def level_name(level: Stage) -> str:
    """`8 concurrent` or `2.5 requests/s`."""
    return f"{level.rate_per_s:g} requests/s" if level.rate_per_s else f"{level.concurrency} concurrent"


def case_traffic(case: Case) -> tuple[Traffic, ...]:
    """An open loop's requests in one table; a table a stage of a closed loop."""
    stages = case.workload.all_stages if case.workload.trace is None else ()
    if any(stage.concurrency for stage in stages):
        return tuple(draw_closed_loop(case.workload, number, case.seed) for number in range(len(stages)))
    return (draw_traffic(case.workload, case.seed),)


def predict_all(observations: Sequence[Observation], coefficients: Coefficients) -> Floats:
    """The predictions for several observations, end to end."""
    return np.concatenate([observation.predict(coefficients) for observation in observations])


def _columns(run: Simulated, request_s: float) -> dict[str, Floats]:
    requests = run.engines.tables.requests
    sent_s, first_s, last_s = (requests[name] / PICOSECONDS for name in ("arrival_ps", "first_ps", "last_ps"))
    tpot_s = np.where(requests.output > 1, (last_s - first_s) / np.maximum(requests.output - 1, 1), np.nan)
    return {
        "stage": run.traffic.stage.astype(float),
        "ttft_s": first_s - sent_s + request_s,
        "e2e_s": last_s - sent_s + request_s,
        "tpot_s": tpot_s,
        "itl_s": tpot_s,
        "output_tokens": requests.output.astype(float),
        "sent_s": sent_s,
        "first_token_s": first_s,
        "last_token_s": last_s,
        "scheduled_s": np.full(len(sent_s), np.nan) if run.traffic.closed_loop else sent_s,
    }


def _statistic(runs: Sequence[dict[str, Floats]], value: Value) -> float:
    merged = {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}
    chosen = (
        np.ones(len(merged["stage"]), bool) if value.stage == WHOLE_RUN else merged["stage"] == value.stage
    )
    if not chosen.any():
        raise KilocardError(f"the case has no stage {value.stage} to compare with")
    if value.metric == "output_tokens_per_s":
        return _throughput({name: column[chosen] for name, column in merged.items()})
    numbers = merged[value.metric][chosen]
    defined = numbers[~np.isnan(numbers)]
    return STATISTICS[value.statistic](defined) if defined.size else float("nan")


def _throughput(columns: dict[str, Floats]) -> float:
    """Counted over the steady window, as measured runs are."""
    table = pd.DataFrame(columns).assign(status=Status.OK.value)
    return output_tokens_per_s(table, steady_window(table)) or float("nan")
