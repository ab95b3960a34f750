"""The KV cache over time under several loads, one strip each: the shape tells the load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from kilocard.notebook import style
from kilocard.record import Run, Stamp

STRIP_INCHES = 1.15
MOST_POINTS = 200


def kv_strips_figure(runs: Mapping[str, Run], *, title: str, stamp: Stamp | str) -> None:
    """KV in use over time, a strip for each named run, on one clock."""
    with style.look():
        figure, all_axes = plt.subplots(
            len(runs), 1, figsize=(6.4, STRIP_INCHES * len(runs) + 0.5), sharex=True, sharey=True,
            squeeze=False,
        )  # fmt: skip
        words = []
        for axes, (name, run) in zip(all_axes[:, 0], runs.items(), strict=True):
            samples = run.samples.sort_values("t_s")
            used = 100 * samples["kv_used_ratio"].to_numpy(float)
            t, peaks = _peaks(samples["t_s"].to_numpy(float), used)
            axes.fill_between(t, 0, peaks, step="post", color=style.KV, linewidth=0)
            axes.set_title(name, loc="left", fontsize=10.5, pad=3)
            axes.set_ylim(0, 105)
            axes.set_yticks((0, 50, 100))
            preempted = int(samples["preemptions"].max() or 0)
            words.append(f"{name}: {np.median(used):.0f} % in the median, {used.max():.0f} % at most, "
                         f"{preempted} requests thrown out")  # fmt: skip
        figure.supylabel("KV in use, %", fontsize=11.5)
        all_axes[-1, 0].set_xlabel("Seconds since the run began")
        style.show(figure, title=title, alt=f"KV cache in use over time. {'; '.join(words)}.", stamp=stamp)


def _peaks(t: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[Any, Any]:
    """As many points as a strip can show, each the highest of its span."""
    first = np.unique(np.linspace(0, len(t), MOST_POINTS, endpoint=False).astype(int))
    return t[first], np.maximum.reduceat(values, first)
