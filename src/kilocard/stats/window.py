"""Which part of a stage throughput is counted over, and the throughput of that part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from kilocard.record import Status
from kilocard.stats.latency import ROWS_BEYOND, numbers

TIE_S = 1e-9
"""A request that is sent at the moment another one ends follows it, whatever rounding says."""

FULL = 0.9
"""Share of the peak number in flight from which a closed-loop stage counts as full."""


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


def steady_window(requests: pd.DataFrame) -> Window | None:
    """The part of a stage with its full load.

    Closed loop: from when its requests were in flight (nine tenths of the peak) until its last was sent.

    Open loop: from the first completion until the last request was sent. Where fewer requests end in that
    window than were in flight at once (5 at least), the stage was too short to have a steady part: then
    the whole stage, from the first send to the last token.
    """
    sent = numbers(requests["sent_s"])
    ends = numbers(requests.loc[requests["status"] == Status.OK, "last_token_s"])
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


def completed_per_s(requests: pd.DataFrame, window: Window | None) -> float | None:
    """Requests that ended in the window."""
    if window is None:
        return None
    return float(_ends_inside(requests, window).sum() / window.seconds)


def prompt_tokens_per_s(ok: pd.DataFrame, window: Window | None) -> float | None:
    """Prompts of the requests that ended in the window."""
    if window is None:
        return None
    return float(ok.loc[_ends_inside(ok, window), "prompt_tokens"].sum() / window.seconds)


def output_tokens_per_s(requests: pd.DataFrame, window: Window | None) -> float | None:
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


def _ends_inside(requests: pd.DataFrame, window: Window) -> pd.Series:
    ends = requests["last_token_s"]
    opens = ends >= window.start_s if window.rule == "whole" else ends > window.start_s
    return (opens & (ends <= window.end_s)).fillna(False).astype(bool)
