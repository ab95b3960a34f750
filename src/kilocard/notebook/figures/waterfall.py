"""A way in stations: a bar each, where the one before it ended."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt

from kilocard.notebook import style
from kilocard.notebook.stations import Station
from kilocard.record import Stamp

COLOURS = {
    "prefill": style.PREFILL,
    "decode": style.DECODE,
    "in the engine's line": style.WAITING,
    "weights": style.WEIGHTS,
    "KV cache": style.KV,
}
LABEL_ROOM = 1.22
"""Of the whole way, for the number beside the last bar."""


def waterfall_figure(stations: Sequence[Station], *, title: str, stamp: Stamp | str, unit: str = "s") -> None:
    """Top to bottom as they follow each other; `unit` is s or ms."""
    times = 1000.0 if unit == "ms" else 1.0
    whole = max(it.begin_s + it.seconds for it in stations)
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 0.42 * len(stations) + 0.9), layout="constrained")
        for number, station in enumerate(stations):
            colour = next(
                (it for name, it in COLOURS.items() if station.name.startswith(name)), style.OVERHEAD
            )
            axes.barh(
                number, times * station.seconds, left=times * station.begin_s, color=colour, height=0.62
            )
            axes.annotate(
                _number(times * station.seconds),
                (times * (station.begin_s + station.seconds), number),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=10,
            )
        axes.set_yticks(range(len(stations)), [it.name for it in stations])
        axes.invert_yaxis()
        axes.set_xlim(0, LABEL_ROOM * times * whole)
        axes.set_xlabel("Milliseconds" if unit == "ms" else "Seconds")
        axes.grid(axis="y", visible=False)
        told = "; ".join(f"{it.name}: {_number(times * it.seconds)} {unit}" for it in stations)
        style.show(figure, title=title, alt=f"One after the other: {told}.", stamp=stamp)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
