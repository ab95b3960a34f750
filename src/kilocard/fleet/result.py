"""What a simulation comes to: a run for statistics and figures, and the numbers that a command prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from kilocard import __version__
from kilocard.box import describe_box
from kilocard.engine_model.calibration import Calibration
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.fleet.simulate import Simulated
from kilocard.record import Kind, Run, Stamp, Status
from kilocard.record.table import REQUEST_COLUMNS, as_typed
from kilocard.specs.case import Case
from kilocard.stats import StageSummary, summarise_requests

TIMES = ("scheduled_s", "sent_s", "first_token_s", "last_token_s")


def as_run(case: Case, simulated: Simulated, calibration: Calibration) -> Run:
    """The simulated requests as a run like any other; its stamp says simulated, and by which calibration."""
    requests, traffic = simulated.engines.tables.requests, simulated.traffic
    overhead_s = calibration.coefficients.request_s
    sent_s = requests.arrival_ps / PICOSECONDS
    first_s = requests.first_ps / PICOSECONDS + overhead_s
    gaps = np.maximum(requests.output - 1, 1)
    last_s = requests.last_ps / PICOSECONDS + overhead_s
    columns: dict[str, Any] = {
        "request_id": requests.number,
        "sent_s": sent_s,
        "first_token_s": first_s,
        "last_token_s": last_s,
        "prompt_tokens": requests.prompt,
        "cached_tokens": requests.cached,
        "output_tokens": requests.output,
        "max_tokens": requests.output,
        "chunks": requests.output,
        "max_gap_s": np.where(requests.output > 1, (last_s - first_s) / gaps, np.nan),
        "stage": traffic.stage,
        "priority": requests.priority,
        "model": case.model,
        "replica": requests.replica,
        "status": Status.OK.value,
        "retries": 0,
        "queue_s": (requests.scheduled_ps - requests.arrival_ps) / PICOSECONDS,
    }
    if not traffic.closed_loop:
        columns["scheduled_s"] = sent_s
    table = pd.DataFrame({name: columns.get(name) for name in REQUEST_COLUMNS}, index=range(len(requests)))
    return Run(as_typed(table, REQUEST_COLUMNS), stamp_of(case, calibration))


def stamp_of(case: Case, calibration: Calibration) -> Stamp:
    """Who was simulated, from what, here and now."""
    stages = (
        {
            str(number): stage.model_dump(exclude_none=True)
            for number, stage in enumerate(case.workload.all_stages)
        }
        if case.workload.trace is None
        else {}
    )
    return Stamp(
        kind=Kind.SIMULATED,
        model=case.model,
        engine="kilocard engine model",
        engine_version=__version__,
        card=str(case.card),
        box=describe_box(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        layout=_layout(case),
        settings=case.engine.model_dump(exclude_defaults=True),
        workload={**case.workload.model_dump(exclude_none=True, exclude={"stages"}), "stages": stages},
        seed=case.seed,
        source=calibration.source,
        kilocard_version=__version__,
    )


def _layout(case: Case) -> str:
    """The layout as a stamp shows it."""
    cut = {"PP": case.engine.pipeline_parallel_size, "DP": case.engine.data_parallel_size}
    named = "".join(f" x {name} {size}" for name, size in cut.items() if size > 1)
    return f"TP {case.engine.tensor_parallel_size}{named} x {case.replicas} replicas"


def in_a_row(runs: Sequence[Run]) -> Run:
    """Runs of one case one after the other, as a sweep is measured."""
    if len(runs) == 1:
        return runs[0]
    tables, begin_s, first = [], 0.0, 0
    for run in runs:
        table = run.requests.copy()
        table[list(TIMES)] += begin_s
        table["request_id"] = pd.array(np.arange(first, first + len(table)), dtype="Int64").astype("string")
        tables.append(table)
        begin_s, first = float(table["last_token_s"].max()), first + len(table)
    return Run(pd.concat(tables, ignore_index=True), runs[0].stamp)


def result_of(case: Case, run: Run, parts: Sequence[Simulated], calibration: Calibration) -> dict[str, Any]:
    """The whole run and each stage, what the engines did, and how far to trust it; null where undefined."""
    used = [share for part in parts for share in _utilizations(part)]
    busy_ps, time_ps = (sum(column) for column in zip(*used, strict=True))
    preemptions = np.concatenate([part.engines.tables.requests.preemptions for part in parts])
    stages = []
    for number, (busy, present) in zip(run.stages, used, strict=True):
        mine = (run.requests["stage"] == number).to_numpy()
        stages.append(
            {"stage": number}
            | _numbers(summarise_requests(run.requests[mine], case.slo, stage=number))
            | _counted(run.requests[mine], busy / present, int(preemptions[mine].sum()))
        )
    return {
        "model": case.model,
        "card": str(case.card),
        "run": _numbers(summarise_requests(run.requests, case.slo))
        | _counted(run.requests, busy_ps / time_ps, int(preemptions.sum()))
        | {"steps": int(sum(part.engines.replicas.steps.sum() for part in parts))},
        "stages": stages,
        "wall_s": sum(part.wall_s for part in parts),
        "calibration": calibration.name,
        "calibration_kind": calibration.kind,
        "expected_error": dict(calibration.expected_error),
    }


def _utilizations(simulated: Simulated) -> list[tuple[int, int]]:
    """Of each stage, how long engines were busy while it lasted, and how long they might have been."""
    ends_ps = (*simulated.begins_ps[1:], int(simulated.engines.tables.requests.last_ps.max()))
    lasted_ps = [end - begin for begin, end in zip(simulated.begins_ps, ends_ps, strict=True)]
    busy_ps = np.diff(simulated.busy_ps)
    engines = len(simulated.engines.replicas)
    return [(int(busy), engines * max(lasted, 1)) for busy, lasted in zip(busy_ps, lasted_ps, strict=True)]


def _counted(requests: pd.DataFrame, utilization: float, preemptions: int) -> dict[str, Any]:
    """What engines count: the share of time in which a step runs, and of prompt tokens found in the cache."""
    return {
        "utilization": utilization,
        "preemptions": preemptions,
        "prefix_hit_ratio": float(requests["cached_tokens"].sum() / requests["prompt_tokens"].sum()),
    }


def _numbers(summary: StageSummary) -> dict[str, Any]:
    names = ("ttft_s", "itl_s", "tpot_s", "e2e_s")
    return {
        "requests": summary.requests,
        "requests_per_s": summary.requests_per_s,
        "output_tokens_per_s": summary.output_tokens_per_s,
        **{name: asdict(getattr(summary, name)) for name in names},
        "goodput_per_s": summary.goodput_per_s,
        "goodput_ratio": summary.goodput_ratio,
    }
