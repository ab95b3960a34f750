"""What a run's stages, or any groups of its requests, come to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from kilocard.errors import KilocardError
from kilocard.record import Run, Status
from kilocard.specs import SLO
from kilocard.stats.latency import (
    Quantiles,
    e2e_s,
    itl_quantiles,
    quantiles,
    tpot_s,
    ttft_from_scheduled_s,
    ttft_s,
)
from kilocard.stats.window import (
    Window,
    completed_per_s,
    output_tokens_per_s,
    prompt_tokens_per_s,
    steady_window,
)


@dataclass(frozen=True, slots=True)
class StageSummary:
    """One stage of a run. Latencies are of requests that ended well; rates are of the window."""

    stage: int
    concurrency: int | None
    rate_per_s: float | None
    requests: int
    status: dict[str, int]
    error_rate: float
    ttft_s: Quantiles
    ttft_from_scheduled_s: Quantiles | None
    itl_s: Quantiles
    tpot_s: Quantiles
    e2e_s: Quantiles
    max_gap_s: Quantiles
    requests_per_s: float | None
    output_tokens_per_s: float | None
    prompt_tokens_per_s: float | None
    goodput_per_s: float | None
    goodput_ratio: float | None
    window: Window | None

    @property
    def errors(self) -> int:
        """Requests that did not end well."""
        return self.requests - self.status.get(Status.OK.value, 0)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "errors": self.errors}


def is_good(requests: pd.DataFrame, slo: SLO) -> pd.Series:
    """Whether each request ended well and within every limit of the SLO."""
    good = requests["status"] == Status.OK
    for limit, values in (
        (slo.ttft_p99_s, ttft_s(requests)),
        (slo.tpot_p99_s, tpot_s(requests).fillna(0.0)),
        (slo.e2e_p99_s, e2e_s(requests)),
    ):
        if limit is not None:
            good &= (values <= limit).fillna(False).astype(bool)
    return good.astype(bool)


def summarise(run: Run, slo: SLO | None = None) -> list[StageSummary]:
    """Every stage of a run."""
    return [summarise_stage(run, stage, slo) for stage in run.stages]


def summarise_stage(run: Run, stage: int, slo: SLO | None = None) -> StageSummary:
    """One stage of a run."""
    level = run.stamp.workload.get("stages", {}).get(str(stage), {})
    requests = run.requests[run.requests["stage"] == stage]
    return summarise_requests(requests, slo, stage, level.get("concurrency"), level.get("rate_per_s"))


def by_column(run: Run, column: str, slo: SLO | None = None) -> dict[str, StageSummary]:
    """A summary for each value of a column (`node`, `replica`, `tenant` ...) over the whole run."""
    if column not in run.requests.columns:
        raise KilocardError(
            f"a request table has no column {column!r}: group by node, replica, tenant or priority"
        )
    return {str(name): summarise_requests(group, slo) for name, group in run.requests.groupby(column)}


def summarise_requests(
    requests: pd.DataFrame,
    slo: SLO | None = None,
    stage: int = 0,
    concurrency: int | None = None,
    rate_per_s: float | None = None,
) -> StageSummary:
    """The summary of any part of a request table."""
    ok = requests[requests["status"] == Status.OK]
    window = steady_window(requests)
    counts = {str(name): int(count) for name, count in requests["status"].value_counts().items()}
    good = is_good(requests, slo) if slo else None
    scheduled = bool(requests["scheduled_s"].notna().any())
    return StageSummary(
        stage=stage,
        concurrency=concurrency,
        rate_per_s=rate_per_s,
        requests=len(requests),
        status=counts,
        error_rate=1 - len(ok) / len(requests) if len(requests) else 0.0,
        ttft_s=quantiles(ttft_s(ok)),
        ttft_from_scheduled_s=quantiles(ttft_from_scheduled_s(ok)) if scheduled else None,
        itl_s=itl_quantiles(ok),
        tpot_s=quantiles(tpot_s(ok)),
        e2e_s=quantiles(e2e_s(ok)),
        max_gap_s=quantiles(ok["max_gap_s"]),
        requests_per_s=completed_per_s(ok, window),
        output_tokens_per_s=output_tokens_per_s(requests, window),
        prompt_tokens_per_s=prompt_tokens_per_s(ok, window),
        goodput_per_s=None if good is None else completed_per_s(requests[good], window) or 0.0,
        goodput_ratio=None if good is None or not len(good) else float(good.mean()),
        window=window,
    )
