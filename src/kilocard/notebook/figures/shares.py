"""How much of the load one replica gets, over time, and what befell it meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kilocard.notebook import style
from kilocard.record import Run

BIN_S = 1.0


def share_figure(
    runs: Mapping[str, Run],
    *,
    replica: str,
    title: str,
    marks: Sequence[tuple[float, str]] = (),
    fair: float | None = None,
) -> None:
    """Share of the requests sent in each second that went to one replica, a line for each named run.

    `marks` are moments with a name; `fair` is the share of a replica that is like all others.
    """
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 3.4))
        words = []
        for (name, run), colour in zip(runs.items(), style.SERIES, strict=False):
            at_s, shares = shares_of(run.requests, replica)
            kind = style.line(run.stamp.kind, colour)
            axes.plot(at_s, 100 * shares, **kind, label=f"{name} ({run.stamp.kind})")
            words.append(f"{name}: from {100 * shares.min():.0f} to {100 * shares.max():.0f} %")
        if fair is not None:
            axes.axhline(100 * fair, color=style.INK, linewidth=1)
        axes.set_ylim(bottom=0)
        top = axes.get_ylim()[1]
        axes.set_ylim(0, top * 1.3)
        left, right = axes.get_xlim()
        for place, (at, name) in enumerate(marks):
            _mark(axes, at, name, place % 2, is_early=at < (left + right) / 2)
        axes.set_xlabel("Seconds since the run began")
        axes.set_ylabel("Share of the requests, %")
        figure.legend(loc="outside upper right", ncols=min(2, len(runs)))
        told = "; ".join(f"{name} at {at:.1f} s" for at, name in marks)
        alt = f"Share of requests sent to replica {replica} in each second. {'; '.join(words)}. {told}."
        style.show(figure, title=title, alt=alt, stamp=next(iter(runs.values())).stamp)


def _mark(axes: plt.Axes, at_s: float, name: str, row: int, is_early: bool) -> None:
    """A named moment; an early one has its name to the right, where the axis is not in the way. Names that
    follow each other stand in different rows."""
    axes.axvline(at_s, color=style.FAINT, linewidth=1, zorder=0)
    axes.annotate(
        name, (at_s, 1), xytext=(4 if is_early else -4, -12 - 12 * row), ha="left" if is_early else "right",
        fontsize=9.5, xycoords=("data", "axes fraction"), textcoords="offset points",
    )  # fmt: skip


def shares_of(
    requests: pd.DataFrame, replica: str, bin_s: float = BIN_S
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """The middle of each span of `bin_s` in which anything was sent, and the replica's share of it."""
    sent = requests[requests["replica"].notna()]
    span = np.floor(sent["sent_s"].to_numpy(float) / bin_s)
    mine = (sent["replica"] == replica).to_numpy(float)
    spans = np.unique(span)
    shares = np.array([mine[span == one].mean() for one in spans])
    return (spans + 0.5) * bin_s, shares
