"""What a simulated cluster comes to: a run like any other, and the numbers that a command prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kilocard import __version__
from kilocard.box import describe_box
from kilocard.cluster.books import OK, REASONS, STATUS
from kilocard.cluster.simulate import Outcome
from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS
from kilocard.record import Kind, Run, Stamp, Status
from kilocard.record.table import REQUEST_COLUMNS, SAMPLE_COLUMNS, as_typed
from kilocard.specs.cluster import CLASSES

ENDS = [STATUS.get(code, Status.CANCELLED).value for code in range(max(STATUS) + 1)]
"""By what `Books.status` says; who is under way when a simulation ends is cancelled."""


def as_run(outcome: Outcome) -> Run:
    """The requests that arrived and the samples as a run like any other; its stamp says simulated."""
    requests, books = outcome.engines.tables.requests, outcome.ground.books
    came = np.nonzero(requests.arrival_ps < NEVER_PS)[0]
    its, status = requests[came].view(np.recarray), books.status[came]
    overhead_s = outcome.fleet.request_s
    sent_s = its.arrival_ps / PICOSECONDS
    begun = its.first_ps >= 0
    first_s = np.where(begun, its.first_ps / PICOSECONDS + overhead_s, np.nan)
    last_s = np.where(status == OK, its.last_ps / PICOSECONDS + overhead_s, np.nan)
    answered = (status == OK) & (its.output > 1)
    placed = its.replica >= 0
    spec = outcome.scenario.cluster
    columns: dict[str, Any] = {
        "request_id": came,
        "scheduled_s": sent_s,
        "sent_s": sent_s,
        "first_token_s": first_s,
        "last_token_s": last_s,
        "prompt_tokens": its.prompt,
        "cached_tokens": np.where(status == OK, its.cached, 0),
        "output_tokens": np.where(status == OK, its.output, 0),
        "max_tokens": outcome.asked.traffic.output_tokens[came],
        "chunks": np.where(status == OK, its.output, 0),
        "max_gap_s": np.where(answered, (last_s - first_s) / np.maximum(its.output - 1, 1), np.nan),
        "stage": outcome.asked.traffic.stage[came],
        "priority": _named(CLASSES, its.priority),
        "model": _named([spec.model_of(pool) for pool in spec.pools], books.home[came]),
        "pool": _named([pool.name for pool in spec.pools], outcome.fleet.pool[its.replica], placed),
        "gateway": _named(
            [f"gateway-{g}" for g in range(outcome.ground.shape.gateways)], books.gateway[came]
        ),
        "replica": _named(outcome.fleet.names, its.replica, placed),
        "node": _named(
            [f"node-{n}" for n in range(int(outcome.node.max()) + 1)], outcome.node[its.replica], placed
        ),
        "status": _named(ENDS, status),
        "error": _named(REASONS, books.reason[came], books.reason[came] > 0),
        "retries": books.retries[came],
        "queue_s": np.where(its.scheduled_ps >= 0, (its.scheduled_ps - its.arrival_ps) / PICOSECONDS, np.nan),
    }
    table = pd.DataFrame({name: columns.get(name) for name in REQUEST_COLUMNS}, index=range(len(came)))
    return Run(as_typed(table, REQUEST_COLUMNS), stamp_of(outcome), samples_of(outcome))


def _named(names: Sequence[str], which: NDArray[Any], there: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """Numbers as names; none where there is none."""
    return np.array([*names, None], object)[which if there is None else np.where(there, which, -1)]


def samples_of(outcome: Outcome) -> pd.DataFrame:
    """One row a replica and sample."""
    samples, names = outcome.ground.samples, outcome.fleet.names
    count = int(samples.ends[0])
    share = samples.share[:count].ravel()
    table = pd.DataFrame(
        {
            "t_s": np.repeat(samples.at_ps[:count] / PICOSECONDS, len(names)),
            "replica": np.tile(np.array(names, object), count),
            "running": samples.running[:count].ravel(),
            "waiting": samples.waiting[:count].ravel(),
            "kv_used_ratio": samples.used[:count].ravel() / 1000,
            "preemptions": samples.preemptions[:count].ravel(),
            "state": np.where(share > 0, "serving", "out"),
            "weight": share,
        }
    )
    return as_typed(table, SAMPLE_COLUMNS)


def stamp_of(outcome: Outcome) -> Stamp:
    """Which cluster was simulated, under what, here and now."""
    scenario, spec = outcome.scenario, outcome.scenario.cluster
    cards = sorted({str(case.card) for case in outcome.fleet.cases})
    layouts = [
        f"TP {case.engine.tensor_parallel_size} x {int(count)} replicas"
        for case, count in zip(outcome.fleet.cases, np.diff(outcome.fleet.begins), strict=True)
    ]
    stages = {
        str(number): stage.model_dump(exclude_none=True)
        for flow in scenario.traffic
        if flow.trace is None
        for number, stage in enumerate(flow.all_stages)
    }
    return Stamp(
        kind=Kind.SIMULATED,
        model=", ".join(spec.models),
        engine="kilocard cluster model",
        engine_version=__version__,
        card=", ".join(cards),
        box=describe_box(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        layout=" + ".join(layouts),
        settings={
            "cluster": spec.name,
            "gateways": spec.gateway.gateways,
            "policy": str(spec.gateway.policy),
        },
        workload={
            "flows": [
                flow.model_dump(mode="json", exclude_none=True, exclude={"stages"})
                for flow in scenario.traffic
            ],
            "faults": [fault.model_dump(mode="json", exclude_none=True) for fault in scenario.faults],
            "stages": stages if len(scenario.traffic) == 1 else {},
        },
        seed=scenario.seed,
        source="; ".join(sorted({found.source for found in outcome.fleet.calibrations})),
        kilocard_version=__version__,
    )


def result_of(outcome: Outcome) -> dict[str, Any]:
    """The whole, each pool, what happened when, and how far to trust it; null where undefined."""
    from kilocard.cluster.summary import summary_of

    spec, calibrations = outcome.scenario.cluster, outcome.fleet.calibrations
    whole = summary_of(outcome)
    return {
        "cluster": spec.name,
        "run": asdict(whole),
        "pools": {pool.name: asdict(summary_of(outcome, pool=p)) for p, pool in enumerate(spec.pools)},
        "events": [{"t_s": at_s, "event": what, "about": about} for at_s, what, about in outcome.events],
        "seed": outcome.scenario.seed,
        "wall_s": outcome.wall_s,
        "calibration": ", ".join(sorted({found.name for found in calibrations})),
        "calibration_kind": ", ".join(sorted({found.kind for found in calibrations})),
        "expected_error": dict(calibrations[0].expected_error),
    }
