"""What a request table says: latencies with their n, throughput of the steady window, goodput, the knee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kilocard.errors import KilocardError
from kilocard.record import Run, Status
from kilocard.specs import SLO

Array = NDArray[np.float64]

ROWS_BEYOND = 5
"""A percentile with fewer rows beyond it is one request's luck, and is not shown."""

SHARES = (0.50, 0.90, 0.95, 0.99)
TIE_S = 1e-9
"""A request that is sent at the moment another one ends follows it, whatever rounding says."""

FULL = 0.9
"""Share of the peak number in flight from which a closed-loop stage counts as full."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds. A percentile is None where fewer than 5 of the `n` rows lie beyond it."""

    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a stage over which throughput was counted, and why that part."""

    start_s: float
    end_s: float
    rule: Literal["steady", "whole"]

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


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


def percentile(values: Sequence[float] | Array, share: float) -> float | None:
    """The value that `share` of the rows do not exceed; None where fewer than 5 rows lie beyond it."""
    ordered = np.sort(np.asarray(values, dtype=float))
    if not _shown(len(ordered), share):
        return None
    return float(np.quantile(ordered, share))


def quantiles(values: Any) -> Quantiles:
    """Mean and percentiles of a column; nulls are left out."""
    numbers = _numbers(values)
    p50, p90, p95, p99 = (percentile(numbers, share) for share in SHARES)
    return Quantiles(float(numbers.mean()) if len(numbers) else None, p50, p90, p95, p99, len(numbers))


def ttft_s(requests: pd.DataFrame) -> pd.Series:
    """Time to the first token, from when the request was sent."""
    return requests["first_token_s"] - requests["sent_s"]


def ttft_from_scheduled_s(requests: pd.DataFrame) -> pd.Series:
    """The same from when the request was due: what an open loop's client waited is in it."""
    return requests["first_token_s"] - requests["scheduled_s"]


def tpot_s(requests: pd.DataFrame) -> pd.Series:
    """(last − first token) / (output tokens − 1); null for fewer than two tokens."""
    gaps = (requests["output_tokens"] - 1).where(requests["output_tokens"] > 1)
    return (requests["last_token_s"] - requests["first_token_s"]) / gaps


def e2e_s(requests: pd.DataFrame) -> pd.Series:
    """From sent to the last token."""
    return requests["last_token_s"] - requests["sent_s"]


def itl_quantiles(requests: pd.DataFrame) -> Quantiles:
    """Gap per token, over tokens and not over requests: a request's mean gap counts once a gap.

    So the mean is Σ(last − first) / Σ(tokens − 1), whatever the engine packs into a chunk. n counts requests.
    """
    tpot = tpot_s(requests).dropna().astype(float)
    if tpot.empty:
        return Quantiles(None, None, None, None, None, 0)
    weights = (requests.loc[tpot.index, "output_tokens"] - 1).to_numpy(dtype=float)
    values: Array = _numbers(tpot)
    p50, p90, p95, p99 = (_weighted(values, weights, share) for share in SHARES)
    return Quantiles(float(np.average(values, weights=weights)), p50, p90, p95, p99, len(values))


def steady_window(requests: pd.DataFrame) -> Window | None:
    """The part of a stage with its full load.

    Closed loop: from when its requests were in flight (nine tenths of the peak) until its last was sent.

    Open loop: from the first completion until the last request was sent. Where fewer requests end in that
    window than were in flight at once (5 at least), the stage was too short to have a steady part: then
    the whole stage, from the first send to the last token.
    """
    sent = _numbers(requests["sent_s"])
    ends = _numbers(requests.loc[requests["status"] == Status.OK, "last_token_s"])
    if not len(ends):
        return None
    whole = Window(float(sent.min()), float(ends.max()), "whole")
    peak_at, peak = _peak_in_flight(requests)
    is_open = bool(requests["scheduled_s"].notna().any())
    start = float(ends.min()) if is_open else peak_at
    steady = Window(start, float(sent.max()), "steady")
    ended_inside = int(((ends > steady.start_s) & (ends <= steady.end_s)).sum())
    least = ROWS_BEYOND if is_open else max(ROWS_BEYOND, peak)
    return steady if steady.seconds > 0 and ended_inside >= least else whole if whole.seconds > 0 else None


def _peak_in_flight(requests: pd.DataFrame) -> tuple[float, int]:
    """When the number of requests in flight first reached nine tenths of its highest value, and that value.

    A request counts as in flight until its last token, so the short gap before a worker's next one keeps the
    count a little under the level at most times: the first moment of the exact peak would be chance.
    """
    begun = requests[requests["sent_s"].notna()]
    sent = begun["sent_s"].to_numpy(dtype=float)
    ended = begun["last_token_s"].fillna(begun["sent_s"]).to_numpy(dtype=float)
    moments = np.concatenate([sent, ended - TIE_S])
    steps = np.concatenate([np.ones(len(sent)), -np.ones(len(ended))])
    order = np.lexsort((steps, moments))
    in_flight = np.cumsum(steps[order])
    peak = int(in_flight.max())
    reached = int(np.argmax(in_flight >= FULL * peak))
    return float(moments[order][reached]), peak


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
        requests_per_s=_completed_per_s(ok, window),
        output_tokens_per_s=_output_tokens_per_s(requests, window),
        prompt_tokens_per_s=_prompt_tokens_per_s(ok, window),
        goodput_per_s=None if good is None else _completed_per_s(requests[good], window) or 0.0,
        goodput_ratio=None if good is None or not len(good) else float(good.mean()),
        window=window,
    )


def _completed_per_s(requests: pd.DataFrame, window: Window | None) -> float | None:
    if window is None:
        return None
    return float(_ends_inside(requests, window).sum() / window.seconds)


def _prompt_tokens_per_s(ok: pd.DataFrame, window: Window | None) -> float | None:
    """Prompts of the requests that ended in the window."""
    if window is None:
        return None
    return float(ok.loc[_ends_inside(ok, window), "prompt_tokens"].sum() / window.seconds)


def _ends_inside(requests: pd.DataFrame, window: Window) -> pd.Series:
    ends = requests["last_token_s"]
    opens = ends >= window.start_s if window.rule == "whole" else ends > window.start_s
    return (opens & (ends <= window.end_s)).fillna(False).astype(bool)


def _output_tokens_per_s(requests: pd.DataFrame, window: Window | None) -> float | None:
    """Tokens streamed in the window, a request's spread evenly over its time, failed ones included."""
    streamed = requests.dropna(subset=["first_token_s", "last_token_s", "output_tokens"])
    if window is None or streamed.empty:
        return None
    first, last = (streamed[name].to_numpy(dtype=float) for name in ("first_token_s", "last_token_s"))
    tokens = streamed["output_tokens"].to_numpy(dtype=float)
    duration = last - first
    inside = np.clip(np.minimum(last, window.end_s) - np.maximum(first, window.start_s), 0.0, None)
    share = np.divide(inside, duration, out=np.zeros_like(inside), where=duration > 0)
    firsts = (first >= window.start_s) & (first <= window.end_s)
    counted = np.where(duration > 0, firsts + (tokens - 1) * share, firsts * tokens)
    return float(counted.sum() / window.seconds)


@dataclass(frozen=True, slots=True)
class Knee:
    """Where a sweep bends. `reached` is False when the last level is the best one: go on to higher ones."""

    concurrency: int
    reached: bool
    rule: str = (
        "the concurrency N that maximises power, throughput / latency, which by Little's law is X²/N"
        " (Kleinrock 1979): past it latency grows faster than throughput"
    )


def knee(concurrency: Sequence[int], throughput_per_s: Sequence[float]) -> Knee:
    """The level of a closed-loop sweep with the most power.

    Power is throughput over latency; N = X·R (Little) makes it X²/N, which needs no latency and no fit. Past
    its maximum one per cent more concurrency buys less than half a per cent more throughput and costs more
    than half a per cent of latency. Ties go to the lower level. L. Kleinrock, "Power and deterministic rules
    of thumb for probabilistic problems in computer communications", ICC 1979.
    """
    if len(concurrency) != len(throughput_per_s) or not concurrency:
        raise KilocardError("a knee needs one throughput for each concurrency, and at least one of them")
    levels = sorted(zip(concurrency, throughput_per_s, strict=True))
    power = [rate**2 / level for level, rate in levels]
    best = int(np.argmax(power))
    return Knee(levels[best][0], reached=best < len(levels) - 1)


def knee_of(stages: Sequence[StageSummary]) -> Knee | None:
    """The knee of a run's closed-loop stages, by output tokens/s; None with fewer than three levels."""
    levels = [
        (stage.concurrency, stage.output_tokens_per_s)
        for stage in stages
        if stage.concurrency and stage.output_tokens_per_s
    ]
    return knee([level for level, _ in levels], [rate for _, rate in levels]) if len(levels) >= 3 else None


def highest_within(stages: Sequence[StageSummary], share: float = 0.99) -> StageSummary | None:
    """The last stage in which at least `share` of the requests met the SLO that the summary was made with."""
    good = [stage for stage in stages if stage.goodput_ratio is not None and stage.goodput_ratio >= share]
    return good[-1] if good else None


def _numbers(values: Any) -> Array:
    return np.asarray(pd.Series(values).dropna().to_numpy(dtype=float), dtype=float)


def _shown(count: int, share: float) -> bool:
    return count * (1 - share) >= ROWS_BEYOND - 1e-9


def _weighted(values: Array, weights: Array, share: float) -> float | None:
    if not _shown(len(values), share):
        return None
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][int(np.searchsorted(reached, share))])
