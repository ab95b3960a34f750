"""How far ahead each token of an answer was of the next best, and where answers part."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt

from kilocard.notebook import style
from kilocard.notebook.figures.curves import label_axes
from kilocard.notebook.sameness import Answer
from kilocard.record import Stamp

LEAST = 1e-3
"""Nats; a smaller lead is drawn here, for a tie has no place on a log axis."""


def leads_figure(answer: Answer, parted: Mapping[str, int | None], *, title: str, stamp: Stamp | str) -> None:
    """A dot a token; a line where another answer to the same prompt left this one."""
    leads = [max(LEAST, lead) for lead in answer.lead]
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
        axes.plot(range(len(leads)), leads, **style.line("measured", style.DECODE, linestyle="none"))
        for number, (name, at) in enumerate(parted.items()):
            if at is not None:
                colour = style.SERIES[(number + 1) % len(style.SERIES)]
                axes.axvline(at, color=colour, linewidth=1.6, label=f"{name}: parts at token {at}")
        label_axes(axes, "Token of the answer", "Lead over the next best, nats", log_y=True)
        if any(at is not None for at in parted.values()):
            figure.legend(loc="outside upper center", ncols=1, fontsize=10)
        close = sum(lead < 0.1 for lead in answer.lead)
        told = "; ".join(
            f"{name} {'never parts' if at is None else f'parts at token {at}'}" for name, at in parted.items()
        )
        alt = (
            f"Lead of each of {len(leads)} tokens over the next best: {close} of them under 0.1 nats, the "
            f"smallest {min(answer.lead):.3g}. {told}."
        )
        style.show(figure, title=title, alt=alt, stamp=stamp)
