"""Predictions beside measurements: a bar for each, and the error between them."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt

from kilocard.notebook import style
from kilocard.record import Kind, Stamp


def error_percent(predicted: float, measured: float) -> float:
    """How far a prediction is off, in per cent of what was measured."""
    return 100 * (predicted / measured - 1)


def pairs_figure(
    pairs: Mapping[str, tuple[float, float]],
    *,
    title: str,
    x_label: str,
    stamp: Stamp | str,
    colour: str = style.DECODE,
    kind: Kind = Kind.MEASURED,
) -> None:
    """Two bars a row, (predicted, measured): an outline for the simulated one, filled for the other."""
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 0.8 * len(pairs) + 1.2))
        for row, (predicted, measured) in enumerate(pairs.values()):
            axes.barh(row - 0.2, predicted, 0.34, facecolor="none", edgecolor=colour, linestyle="--",
                      linewidth=1.4, label=None if row else str(Kind.SIMULATED))  # fmt: skip
            axes.barh(row + 0.2, measured, 0.34, color=colour, label=None if row else str(kind))
            axes.annotate(f"{round(error_percent(predicted, measured)):+d} %", (predicted, row - 0.2),
                          xytext=(5, 0), va="center", textcoords="offset points", fontsize=10)  # fmt: skip
            axes.annotate(f"{measured:.3g}", (measured, row + 0.2), xytext=(5, 0), va="center",
                          textcoords="offset points", fontsize=10)  # fmt: skip
        axes.set_yticks(range(len(pairs)), list(pairs))
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(x_label)
        figure.legend(loc="outside upper right", ncols=2)
        alt = f"{x_label}. " + "; ".join(
            f"{name}: simulated {predicted:.3g}, {kind} {measured:.3g}, off by "
            f"{round(error_percent(predicted, measured)):+d} %"
            for name, (predicted, measured) in pairs.items()
        )
        style.show(figure, title=title, alt=alt + ".", stamp=stamp)
