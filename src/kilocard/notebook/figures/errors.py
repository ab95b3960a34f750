"""Errors of predictions, a dot each: how far off, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from kilocard.notebook import style
from kilocard.record import Stamp


@dataclass(frozen=True, slots=True)
class Errors:
    """One kind of prediction: predicted ÷ measured − 1, row by row."""

    name: str
    errors: Sequence[float]
    colour: str


def errors_figure(groups: Sequence[Errors], *, title: str, stamp: Stamp | str, within: float) -> None:
    """A row of dots a group, in per cent, with its median; the band marks `within` either way."""
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 0.7 + 0.55 * len(groups)))
        axes.axvspan(-100 * within, 100 * within, color=style.FAINT, alpha=0.15, linewidth=0)
        for row, group in enumerate(reversed(groups)):
            percent = 100 * np.sort(np.asarray(group.errors, dtype=float))
            lift = 0.16 * ((np.arange(len(percent)) % 3) - 1)
            axes.plot(percent, row + lift, "o", color=group.colour, alpha=0.75, markersize=4.5)
        axes.set_yticks(range(len(groups)), [group.name for group in reversed(groups)])
        axes.set_ylim(-0.6, len(groups) - 0.4)
        axes.set_xlabel("Predicted ÷ measured − 1, %")
        style.show(figure, title=title, alt=_alt(groups, within), stamp=stamp)


def _alt(groups: Sequence[Errors], within: float) -> str:
    told = []
    for group in groups:
        size = np.abs(np.asarray(group.errors, dtype=float))
        told.append(
            f"{group.name}: {len(size)} predictions, median error {100 * np.median(size):.1f} %, "
            f"largest {100 * size.max():.0f} %"
        )
    return f"Errors of predictions in per cent, a band at {100 * within:.0f} % either way. {'; '.join(told)}."
