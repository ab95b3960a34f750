"""Waits of a load: a dot a request, when it was asked and how long its first token took; a cross where it was
refused."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd

from kilocard.notebook import style
from kilocard.notebook.figures.curves import label_axes
from kilocard.record import Stamp, Status
from kilocard.stats import ttft_s

PANEL_INCHES = 1.75
REFUSED_AT_S = 0.03
"""Where crosses stand on the axis of waits: a refusal comes at once."""


def waits_figure(
    tables: Mapping[str, pd.DataFrame], *, title: str, limit_s: float, stamp: Stamp | str
) -> None:
    """TTFT of each request on when it was asked, a panel for each named request table, colours by priority.

    `limit_s` is what a first token may take: a line, and what lies above it is late.
    """
    names = list(
        dict.fromkeys(name for table in tables.values() for name in table["priority"].dropna().unique())
    )
    colours = dict(zip(sorted(names, key=_rank), style.SERIES, strict=False))
    with style.look():
        figure, all_axes = plt.subplots(
            len(tables), 1, figsize=(6.4, PANEL_INCHES * len(tables) + 0.9), sharex=True, sharey=True,
            squeeze=False,
        )  # fmt: skip
        words = []
        for axes, (name, table) in zip(all_axes[:, 0], tables.items(), strict=True):
            _panel(axes, table, colours)
            axes.axhline(limit_s, color=style.INK, linewidth=1)
            label_axes(axes, "", "", log_y=True)
            axes.set_ylabel("")
            axes.set_title(name, loc="left", fontsize=10.5, pad=3)
            words.append(f"{name}: {_said(table, limit_s)}")
        all_axes[-1, 0].set_xlabel("Asked, seconds since the first")
        figure.supylabel("Time to first token, s (log)", fontsize=11.5)
        handles, labels = all_axes[0, 0].get_legend_handles_labels()
        for axes in all_axes[1:, 0]:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                if label not in labels:
                    handles, labels = [*handles, handle], [*labels, label]
        figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
        alt = f"Time to first token of each request over time, with a limit of {limit_s:g} s. "
        style.show(figure, title=title, alt=alt + "; ".join(words) + ".", stamp=stamp)


def _panel(axes: plt.Axes, table: pd.DataFrame, colours: Mapping[str, str]) -> None:
    asked_s = (table["scheduled_s"] - table["scheduled_s"].min()).to_numpy(float)
    waits = ttft_s(table).to_numpy(float, na_value=float("nan"))
    for name, colour in colours.items():
        mine = (table["priority"] == name).to_numpy(bool)
        axes.plot(asked_s[mine], waits[mine], "o", color=colour, ms=2.6, mew=0, label=name)
    refused = (table["status"] == Status.REFUSED).to_numpy(bool)
    if refused.any():
        at = [REFUSED_AT_S] * int(refused.sum())
        axes.plot(asked_s[refused], at, "x", color=style.REFUSED, ms=3.5, mew=0.9, label="refused")


def _said(table: pd.DataFrame, limit_s: float) -> str:
    answered = table[table["status"] == Status.OK]
    late = int((ttft_s(answered) > limit_s).sum())
    refused = int((table["status"] == Status.REFUSED).sum())
    return f"{len(table)} asked, {refused} refused, {late} of {len(answered)} answers late"


def _rank(name: str) -> int:
    """Classes in their order, other names behind them."""
    order = ("interactive", "async", "batch")
    return order.index(name) if name in order else len(order)
