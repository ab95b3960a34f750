"""What a request table says: latencies with their n, throughput of the steady window, goodput, the knee."""

from kilocard.stats.bend import Knee, highest_within, knee, knee_of
from kilocard.stats.latency import (
    Quantiles,
    e2e_s,
    itl_quantiles,
    percentile,
    quantiles,
    tpot_s,
    ttft_from_scheduled_s,
    ttft_s,
)
from kilocard.stats.summary import (
    StageSummary,
    by_column,
    is_good,
    summarise,
    summarise_requests,
    summarise_stage,
)
from kilocard.stats.window import Window, steady_window

__all__ = [
    "Knee",
    "Quantiles",
    "StageSummary",
    "Window",
    "by_column",
    "e2e_s",
    "highest_within",
    "is_good",
    "itl_quantiles",
    "knee",
    "knee_of",
    "percentile",
    "quantiles",
    "steady_window",
    "summarise",
    "summarise_requests",
    "summarise_stage",
    "tpot_s",
    "ttft_from_scheduled_s",
    "ttft_s",
]
