"""Copies beside each other: what each writes alone and at once, and how their requests end when one dies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kilocard.notebook import style
from kilocard.notebook.replicas import median_tpot_s, tokens_per_s
from kilocard.record import Kind, Run, Status

LEVEL = {"color": style.INK, "linewidth": 1.1}
"""A derived number among bars: a thin line."""

PANEL_INCHES, ROW_INCHES = 0.75, 0.085
MOST_REQUESTS = 24


def copies_figure(alone: Mapping[str, Run], at_once: Mapping[str, Run], *, title: str) -> None:
    """Tokens a second and TPOT of each replica alone, of both at once, and what was predicted from the first.

    Predicted: at once they write the sum of what each writes alone, at the TPOT that each has alone.
    """
    colours = dict(zip(alone, style.SERIES, strict=False))
    rates = {name: tokens_per_s(run) for name, run in alone.items()}
    steps = {name: 1000 * median_tpot_s(run) for name, run in alone.items()}
    stamp = next(iter(at_once.values())).stamp
    with style.look():
        figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 3.2))
        for place, (name, rate) in enumerate(rates.items()):
            left.bar(place, rate, 0.6, color=colours[name])
            right.bar(place, steps[name], 0.6, color=colours[name])
        together, below = len(rates), 0.0
        for place, (name, run) in enumerate(at_once.items()):
            left.bar(together, tokens_per_s(run), 0.6, bottom=below, color=colours[name], label=name)
            right.bar(together + place, 1000 * median_tpot_s(run), 0.6, color=colours[name])
            right.plot([together + place - 0.38, together + place + 0.38], [steps[name]] * 2, **LEVEL)
            below += tokens_per_s(run)
        derived = f"predicted ({Kind.DERIVED})"
        left.plot([together - 0.38, together + 0.38], [sum(rates.values())] * 2, **LEVEL, label=derived)
        left.set_xticks(range(together + 1), [*(f"{name}\nalone" for name in rates), "both\nat once"])
        right.set_xticks(
            range(2 * together), [f"{name}\n{how}" for how in ("alone", "at once") for name in rates]
        )
        for axes, what in ((left, "Tokens/s"), (right, "TPOT, ms")):
            axes.set_ylabel(what)
            axes.tick_params(axis="x", labelsize=10)
            axes.grid(axis="x", visible=False)
        figure.legend(loc="outside upper right", ncols=3)
        alt = (
            f"Tokens/s, {stamp.kind}: "
            + ", ".join(f"{name} alone {rate:.3g}" for name, rate in rates.items())
            + f"; both at once {below:.3g}, predicted {sum(rates.values()):.3g}. TPOT in ms: "
            + ", ".join(
                f"{name} alone {steps[name]:.3g}, at once {1000 * median_tpot_s(run):.3g}"
                for name, run in at_once.items()
            )
        )
        style.show(figure, title=title, alt=alt + ".", stamp=stamp)


def lives_figure(
    runs: Mapping[str, Run], *, title: str, marked_s: float, mark: str, most: int = MOST_REQUESTS
) -> None:
    """A panel for each run on one clock, a bar a request, and a cross where one did not end well.

    `marked_s` is when something happened to one of them, on that clock; `mark` says what.
    """
    tables = {name: run.requests.sort_values("sent_s").head(most) for name, run in runs.items()}
    rows = [len(table) for table in tables.values()]
    stamp = next(iter(runs.values())).stamp
    with style.look():
        figure, all_axes = plt.subplots(
            len(runs), 1, sharex=True, squeeze=False, height_ratios=rows,
            figsize=(6.4, PANEL_INCHES * len(runs) + ROW_INCHES * sum(rows) + 0.8),
        )  # fmt: skip
        words = [
            _panel(axes, name, table, marked_s)
            for axes, (name, table) in zip(all_axes[:, 0], tables.items(), strict=True)
        ]
        all_axes[0, 0].annotate(
            mark, (marked_s, 1), xycoords=("data", "axes fraction"), xytext=(5, 5),
            textcoords="offset points", fontsize=10, color=style.REFUSED,
        )  # fmt: skip
        all_axes[-1, 0].set_xlabel("Seconds since the first request was sent")
        figure.supylabel("Request", fontsize=11.5)
        figure.legend(*_legend(all_axes[:, 0]), loc="outside lower center", ncols=3)
        alt = f"Requests as bars over time; {mark} at {marked_s:.2g} s. {'; '.join(words)}."
        style.show(figure, title=title, alt=alt, stamp=stamp)


def _panel(axes: plt.Axes, name: str, table: pd.DataFrame, marked_s: float) -> str:
    """One replica's requests; what became of them, in words."""
    place = np.arange(len(table))
    ended_well = (table["status"] == Status.OK).to_numpy(bool)
    sent = table["sent_s"].fillna(marked_s).to_numpy(float)
    first, last = (
        table[column].to_numpy(float, na_value=np.nan) for column in ("first_token_s", "last_token_s")
    )
    first = np.where(np.isnan(first), np.maximum(sent, marked_s), first)
    axes.barh(place, first - sent, left=sent, color=style.PREFILL, label="until the first token")
    axes.barh(place, last - first, left=first, color=style.DECODE, label="until the last token")
    ends = np.where(np.isnan(last), first, last)
    axes.plot(
        ends[~ended_well], place[~ended_well], "x", color=style.REFUSED, ms=6, mew=1.8, label="cut or refused"
    )
    axes.axvline(marked_s, color=style.REFUSED, linewidth=1, zorder=0)
    axes.set_title(name, loc="right", fontsize=10.5, pad=3)
    axes.set_yticks([])
    axes.invert_yaxis()
    counts = table["status"].value_counts()
    return f"{name}: " + ", ".join(f"{count} {status}" for status, count in counts.items())


def _legend(panels: Sequence[plt.Axes]) -> tuple[list[object], list[str]]:
    """Each label once, from whichever panel has something drawn for it."""
    found: dict[str, object] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)
