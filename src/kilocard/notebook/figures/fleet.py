"""A fleet over time: how many requests each replica holds, from the request table alone."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import NDArray

from kilocard.notebook import style
from kilocard.record import Run, Stamp

BINS = 120
ROW_INCHES, PANEL_INCHES = 0.17, 0.55
HELD = LinearSegmentedColormap.from_list("held", ["#ffffff", style.DECODE, "#00263d"])
"""White is idle, the colour of decoding is busy, near black is piled up."""


def pile_up_figure(
    runs: Mapping[str, Run], *, title: str, names: Mapping[str, str] | None = None, stamp: Stamp | str = ""
) -> None:
    """Requests in flight at each replica over time, a panel for each named run, one scale for all.

    `names` are what replicas are called in the figure, in their order from above; others follow by id.
    """
    shown = names or {}
    order = [
        *shown,
        *sorted({str(it) for run in runs.values() for it in run.requests["replica"].dropna()} - shown.keys()),
    ]
    until_s = max(float(run.requests["last_token_s"].max()) for run in runs.values())
    edges = np.linspace(0, until_s, BINS + 1)
    grids = {name: in_flight(run.requests, order, edges) for name, run in runs.items()}
    most = max(float(grid.max()) for grid in grids.values())
    with style.look():
        height = (PANEL_INCHES + ROW_INCHES * len(order)) * len(runs) + 0.6
        figure, all_axes = plt.subplots(
            len(runs), 1, figsize=(6.4, height), sharex=True, squeeze=False, layout="constrained"
        )
        for axes, (name, grid) in zip(all_axes[:, 0], grids.items(), strict=True):
            mesh = axes.imshow(
                grid, cmap=HELD, vmin=0, vmax=most, aspect="auto", interpolation="none",
                extent=(0, until_s, len(order), 0),
            )  # fmt: skip
            axes.set_title(name, loc="left", fontsize=10.5, pad=3)
            axes.set_yticks(np.arange(len(order)) + 0.5, [shown.get(it, it) for it in order], fontsize=9)
            axes.grid(visible=False)
        all_axes[-1, 0].set_xlabel("Seconds since the run began")
        figure.colorbar(mesh, ax=all_axes[:, 0].tolist(), label="Requests in flight", pad=0.02, aspect=30)
        words = [
            f"{name}: at most {grid.max():.0f} at one replica, {_said(shown.get(order[at], order[at]))}"
            for name, grid in grids.items()
            for at in (int(grid.max(axis=1).argmax()),)
        ]
        alt = f"Requests in flight at each replica over time. {'; '.join(words)}."
        style.show(figure, title=title, alt=alt, stamp=stamp or next(iter(runs.values())).stamp)


def in_flight(requests: pd.DataFrame, replicas: list[str], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean number of requests that each replica held in each span between two edges (seconds): a request is
    held from when it was sent to its last token."""
    grid = np.zeros((len(replicas), len(edges) - 1))
    begun, gone = requests["sent_s"].to_numpy(float), requests["last_token_s"].to_numpy(float)
    places = {name: row for row, name in enumerate(replicas)}
    for begin, end, name in zip(begun, gone, requests["replica"].astype(object), strict=True):
        if name in places and end > begin:
            covered = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin), 0, None)
            grid[places[name]] += covered / np.diff(edges)
    return grid


def _said(name: str) -> str:
    return name.replace("\n", " ")
