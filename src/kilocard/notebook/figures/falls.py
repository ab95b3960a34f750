"""Where an ideal goes: a bar for what is left after each thing, before the ghost of what there was."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt

from kilocard.notebook import style
from kilocard.planning.waterfall import Fall
from kilocard.record import Stamp

LABEL_ROOM = 1.16
"""Of the ideal, for the number beside a bar."""


def falls_figure(falls: Sequence[Fall], *, title: str, stamp: Stamp | str, unit: str) -> None:
    """Top to bottom as one follows the other; the first bar is the ideal."""
    ideal = falls[0].tokens_per_s
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 0.42 * len(falls) + 0.9), layout="constrained")
        before = ideal
        for number, fall in enumerate(falls):
            axes.barh(number, before, color=style.OVERHEAD, alpha=0.45, height=0.62)
            axes.barh(number, fall.tokens_per_s, color=style.DECODE, height=0.62)
            axes.annotate(
                f"{fall.tokens_per_s:,.0f}"
                if number == 0
                else f"{fall.tokens_per_s:,.0f}  ({fall.share:.0%})",
                (max(before, fall.tokens_per_s), number),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=10,
            )
            before = fall.tokens_per_s
        axes.set_yticks(range(len(falls)), [fall.what for fall in falls])
        axes.invert_yaxis()
        axes.set_xlim(0, LABEL_ROOM * max(fall.tokens_per_s for fall in falls))
        axes.set_xlabel(unit)
        axes.grid(axis="y", visible=False)
        told = "; ".join(
            f"{fall.what}: {fall.tokens_per_s:,.0f}, {fall.share:.0%} of the one before" for fall in falls
        )
        style.show(figure, title=title, alt=f"{unit}. {told}.", stamp=stamp)
