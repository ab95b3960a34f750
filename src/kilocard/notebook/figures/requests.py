"""Requests as they were lived: one bar each, one stream piece by piece, and how latencies spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kilocard.notebook import style
from kilocard.notebook.figures.curves import label_axes
from kilocard.record import Run, Stamp


def life_of_requests(run: Run, *, title: str, most: int = 48) -> None:
    """One bar a request, in order of sending: until the first token, then until the last."""
    rows = run.ok.sort_values("sent_s").head(most)
    sent, first, last = (rows[name].to_numpy(float) for name in ("sent_s", "first_token_s", "last_token_s"))
    origin = sent.min()
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 3.6))
        place = np.arange(len(rows))
        axes.barh(place, first - sent, left=sent - origin, color=style.PREFILL, label="until the first token")
        axes.barh(place, last - first, left=first - origin, color=style.DECODE, label="until the last token")
        axes.invert_yaxis()
        axes.set_xlabel("Seconds since the first request was sent")
        axes.set_ylabel("Request")
        axes.legend(loc="upper right")
        alt = (
            f"{len(rows)} requests as bars over time. The first token came after "
            f"{np.median(first - sent):.2g} s for half of them, after {np.max(first - sent):.2g} s at worst; "
            f"the last bar ends at {np.max(last) - origin:.3g} s."
        )
        style.show(figure, title=title, alt=alt, stamp=run.stamp)


def stream_figure(chunk_times_s: Sequence[float], *, title: str, stamp: Stamp | str) -> None:
    """One streamed answer: when each piece arrived, in seconds after the request was sent."""
    arrived = np.asarray(chunk_times_s, float)
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 2.8))
        axes.plot(1000 * arrived, np.arange(1, len(arrived) + 1), "o", color=style.DECODE, ms=3.5)
        axes.plot(
            1000 * arrived[0], 1, "o", color=style.PREFILL, ms=9, markerfacecolor="none", label="first token"
        )
        axes.set_xlabel("Milliseconds since the request was sent")
        axes.set_ylabel("Piece of the stream")
        axes.set_xlim(left=0)
        axes.legend(loc="upper left")
        gaps = np.diff(arrived)
        alt = (
            f"{len(arrived)} pieces of one answer: the first after {1000 * arrived[0]:.0f} ms, then "
            f"one every {1000 * np.median(gaps):.0f} ms in the median, {1000 * gaps.max():.0f} ms at most."
        )
        style.show(figure, title=title, alt=alt, stamp=stamp)


def spread_figure(
    values_s: pd.Series,
    percentiles: Mapping[str, float | None],
    *,
    title: str,
    x_label: str,
    stamp: Stamp | str,
) -> None:
    """The whole distribution of a latency, with its mean and the percentiles that have enough requests."""
    values = np.sort(values_s.dropna().to_numpy(float))
    share = np.arange(1, len(values) + 1) / len(values)
    known = {name: value for name, value in percentiles.items() if value is not None}
    with style.look():
        figure, axes = plt.subplots()
        axes.step(values, share, where="post", color=style.DECODE)
        axes.axvline(values.mean(), color=style.PREFILL, linestyle=(0, (4, 2)), linewidth=1.4)
        axes.annotate(
            "mean", (values.mean(), 0.04), xytext=(4, 0), textcoords="offset points", color=style.PREFILL
        )
        for place, (name, value) in enumerate(known.items()):
            level = float(name.lstrip("Pp")) / 100
            axes.plot(value, level, "o", color=style.INK, ms=5)
            axes.annotate(
                f"{name} {value:.2g} s",
                (value, level),
                xytext=(-6, 3) if place < 2 else (6, -13),
                ha="right" if place < 2 else "left",
                textcoords="offset points",
            )
        label_axes(axes, x_label, "Share of requests at most this")
        axes.set_ylim(0, 1.05)
        alt = f"Distribution of {len(values)} requests: mean {values.mean():.2g} s, " + ", ".join(
            f"{name} {value:.2g} s" for name, value in known.items()
        )
        style.show(figure, title=title, alt=alt + ".", stamp=stamp)
