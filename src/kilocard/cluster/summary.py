"""The numbers of a simulated cluster, without a table of its requests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilocard.cluster.books import FAILED, OK, REFUSED, TIMED_OUT, UNDER_WAY
from kilocard.cluster.simulate import Outcome
from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS
from kilocard.specs.slo import SLO
from kilocard.stats.latency import Quantiles, quantiles

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Summary:
    """arrived = ok + refused + timeouts + errors + in_flight. Latencies are of those that ended well, rates
    over the time from the first arrival to the last; `good` met the cluster's SLO. `utilization` is the
    share of the engines' time in which a step runs."""

    arrived: int
    ok: int
    refused: int
    timeouts: int
    errors: int
    in_flight: int
    retries: int
    ttft_s: Quantiles
    tpot_s: Quantiles
    e2e_s: Quantiles
    requests_per_s: float
    output_tokens_per_s: float
    goodput_per_s: float | None
    goodput_ratio: float | None
    utilization: float
    preemptions: int
    prefix_hit_ratio: float


def summary_of(
    outcome: Outcome, pool: int | None = None, rank: int | None = None, since_s: float = 0.0
) -> Summary:
    """Of all requests that arrived from `since_s` on, or of those that were meant for a pool, or of one
    class."""
    requests, books = outcome.engines.tables.requests, outcome.ground.books
    mine = (requests.arrival_ps < NEVER_PS) & (requests.arrival_ps >= since_s * PICOSECONDS)
    if pool is not None:
        mine &= books.home == pool
    if rank is not None:
        mine &= requests.priority == rank
    status = books.status[mine]
    its = requests[mine & (books.status == OK)]
    overhead_s = outcome.fleet.request_s
    ttft_s = (its["first_ps"] - its["arrival_ps"]) / PICOSECONDS + overhead_s
    e2e_s = (its["last_ps"] - its["arrival_ps"]) / PICOSECONDS + overhead_s
    tpot_s = (e2e_s - ttft_s) / np.where(its["output"] > 1, its["output"] - 1, np.nan)
    lasted_s = _span_s(requests.arrival_ps[mine])
    slo = outcome.scenario.cluster.slo
    good = is_good(slo, ttft_s, tpot_s, e2e_s) if slo else None
    asked = int(its["prompt"].sum())
    counts = np.bincount(status, minlength=5)
    engines = outcome.engines.replicas
    if pool is not None:
        engines = engines[outcome.fleet.pool == pool]
    return Summary(
        arrived=len(status),
        ok=int(counts[OK]),
        refused=int(counts[REFUSED]),
        timeouts=int(counts[TIMED_OUT]),
        errors=int(counts[FAILED]),
        in_flight=int(counts[UNDER_WAY]),
        retries=int(books.retries[mine].sum()),
        ttft_s=quantiles(ttft_s),
        tpot_s=quantiles(tpot_s),
        e2e_s=quantiles(e2e_s),
        requests_per_s=len(its) / lasted_s,
        output_tokens_per_s=int(its["output"].sum()) / lasted_s,
        goodput_per_s=None if good is None else int(good.sum()) / lasted_s,
        goodput_ratio=None if good is None else int(good.sum()) / max(len(status), 1),
        utilization=float(
            engines.busy_ps.astype(float).sum() / PICOSECONDS / max(outcome.end_s * len(engines), 1e-9)
        ),
        preemptions=int(engines.preemptions.sum()),
        prefix_hit_ratio=int(its["cached"].sum()) / asked if asked else 0.0,
    )


def is_good(
    slo: SLO, ttft_s: NDArray[np.float64], tpot_s: NDArray[np.float64], e2e_s: NDArray[np.float64]
) -> Flags:
    """Which of some requests that ended well met every limit."""
    good = np.ones(len(ttft_s), bool)
    for limit, values in (
        (slo.ttft_p99_s, ttft_s),
        (slo.tpot_p99_s, np.nan_to_num(tpot_s)),
        (slo.e2e_p99_s, e2e_s),
    ):
        if limit is not None:
            good &= values <= limit
    return good


def _span_s(arrival_ps: NDArray[np.int64]) -> float:
    if len(arrival_ps) < 2:
        return 1.0
    return max(float(arrival_ps.max() - arrival_ps.min()) / PICOSECONDS, 1e-9)
