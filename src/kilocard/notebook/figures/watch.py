"""What Prometheus saw of each replica, with the moment of a fault and that of its alert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt

from kilocard.notebook import style
from kilocard.notebook.figures.curves import label_axes
from kilocard.record import Stamp


def watch_figure(
    rows: Sequence[Mapping[str, Any]],
    *,
    by: str,
    slow_s: float,
    fired_s: float,
    begin_s: float,
    unit: str,
    title: str,
    stamp: Stamp | str,
    times: float = 1000.0,
) -> None:
    """A line a series, told apart by the label `by`; values are drawn times `times`."""
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
        last = {}
        for number, row in enumerate(rows):
            name = str(row["metric"].get(by, ""))
            at = [float(moment) - begin_s for moment, _ in row["values"]]
            values = [times * float(value) for _, value in row["values"]]
            colour = style.SERIES[number % len(style.SERIES)]
            axes.plot(at, values, color=colour, linestyle=":", label=name.rpartition(":")[2] or name)
            last[name] = values[-1]
        for moment_s, told, colour in (
            (slow_s, "slows down", style.REFUSED),
            (fired_s, "alert", style.INK),
        ):
            axes.axvline(moment_s - begin_s, color=colour, linewidth=1.3)
            axes.annotate(
                told, (moment_s - begin_s, 1), xycoords=("data", "axes fraction"), xytext=(3, 3),
                textcoords="offset points", fontsize=10, color=colour,
            )  # fmt: skip
        label_axes(axes, "Seconds since the scene began", unit)
        figure.legend(loc="outside upper center", ncols=4, fontsize=10)
        alt = (
            f"{len(rows)} series over time, at the end "
            f"{', '.join(f'{k}: {v:.3g}' for k, v in last.items())}. "
            f"The fault comes at {slow_s - begin_s:.0f} s, the alert at {fired_s - begin_s:.0f} s."
        )
        style.show(figure, title=title, alt=alt, stamp=stamp)
