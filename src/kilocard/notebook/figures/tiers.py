"""Two gateways over time, one of which goes: what each holds, and how long first tokens take."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kilocard.notebook import style
from kilocard.notebook.figures.curves import label_axes
from kilocard.notebook.figures.fleet import in_flight
from kilocard.notebook.gone import Gone
from kilocard.record import Kind, Status

BINS = 160
NO_TOKEN = 1.6
"""Times the longest TTFT: where a request without a token is drawn."""


def tiers_figure(gone: Gone, *, title: str, mark: str, cap: int) -> None:
    """Above, requests in flight at each gateway and the `cap` that one owns; below, each request's TTFT by
    when it was sent, crossed where it did not end well. `mark` says what happened."""
    table, stamp = gone.run.requests, gone.run.stamp
    names = sorted(table["gateway"].dropna().unique())
    until_s = float(gone.ends_s.max())
    edges = np.linspace(0, until_s, BINS + 1)
    held = in_flight(table.assign(replica=table["gateway"], last_token_s=gone.ends_s), names, edges)
    with style.look():
        figure, (above, below) = plt.subplots(
            2, 1, sharex=True, figsize=(6.4, 4.6), height_ratios=(5, 4), layout="constrained"
        )
        for name, row in zip(names, held, strict=True):
            colour = style.SERIES[int(name)]
            above.stairs(row, edges, color=colour, linewidth=1.8, label=f"gateway {name}")
            _first_tokens(below, table[table["gateway"] == name], colour)
        above.axhline(cap, label=f"caps that one owns ({Kind.DERIVED})", color=style.INK, linewidth=1.1)
        for axes in (above, below):
            axes.axvline(gone.at_s, color=style.REFUSED, linewidth=1.2)
            axes.axvline(gone.known_s, color=style.FAINT, linewidth=1.2)
        place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 10}
        above.annotate(mark, (gone.at_s, 1), xytext=(-5, 3), ha="right", color=style.REFUSED, **place)
        above.annotate("HAProxy knows", (gone.known_s, 1), xytext=(5, 3), **place)
        above.set_ylabel("Requests in flight")
        above.set_ylim(bottom=0)
        label_axes(below, "Seconds since the load began", "TTFT, ms", log_y=True)
        below.plot([], [], "x", color=style.REFUSED, label="did not end well")
        figure.legend(loc="outside upper center", ncols=4, fontsize=10)
        alt = (
            f"Requests in flight at two gateways and TTFT over time. {mark} at {gone.at_s:.2g} s with "
            f"{gone.in_flight} in flight; HAProxy knows at {gone.known_s:.2g} s. "
            f"{len(gone.sent_before)} requests under way and {len(gone.sent_after)} sent later did not end "
            f"well; {int((table['status'] == Status.OK).sum())} of {len(table)} did."
        )
        style.show(figure, title=title, alt=alt, stamp=stamp)


def _first_tokens(axes: plt.Axes, table: pd.DataFrame, colour: str) -> None:
    """A dot a request; a cross where it did not end well, above all dots where it had no token."""
    sent = table["sent_s"].to_numpy(float)
    ttft_ms = 1000 * (table["first_token_s"].to_numpy(float, na_value=np.nan) - sent)
    ended_well = (table["status"] == Status.OK).to_numpy(bool)
    axes.plot(sent[ended_well], ttft_ms[ended_well], "o", color=colour, markersize=4)
    highest = np.nanmax(ttft_ms) if np.isfinite(ttft_ms).any() else 1.0
    drawn = np.where(np.isnan(ttft_ms), NO_TOKEN * highest, ttft_ms)
    axes.plot(
        sent[~ended_well], drawn[~ended_well], "x", color=style.REFUSED, markersize=7, markeredgewidth=1.8
    )
