"""A roll-out over time: a lane a replica with what it was, and a bar for each request that it answered."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd

from kilocard.notebook import style
from kilocard.notebook.rollouts import Rollout
from kilocard.record import Status

GROUND = {
    "draining": style.PREFILL,
    "stopping": style.REFUSED,
    "empty": style.WAITING,
    "starting": style.WAITING,
    "given up": style.REFUSED,
}
LANE = 0.86
"""Of the height that belongs to a replica."""
MOST_DEEP = 8


def rollout_figure(rollout: Rollout, *, title: str) -> None:
    """Bars from sending to the last token, coloured by version; behind them, what is no serving."""
    table = rollout.run.requests
    versions = [it for it in dict.fromkeys(table["model_version"].dropna()) if it]
    colour = dict(zip(versions, style.SERIES, strict=False))
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 0.9 * len(rollout.replicas) + 1.6), layout="constrained")
        for number, replica in enumerate(rollout.replicas):
            _ground(axes, rollout, replica, number)
            mine = table[table["replica"] == replica]
            for version in versions:
                _bars(axes, mine, mine["model_version"] == version, number, colour[version])
        lost = rollout.lost
        axes.plot(
            lost["sent_s"], [-0.6] * len(lost), "x", color=style.REFUSED, markersize=7, markeredgewidth=1.8
        )
        _legend(figure, colour, rollout, len(lost))
        axes.set_yticks(range(len(rollout.replicas)), rollout.replicas)
        axes.set_ylim(len(rollout.replicas) - 0.5, -0.9 if len(lost) else -0.5)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("Seconds since the load began")
        style.show(figure, title=title, alt=_alt(rollout, versions), stamp=rollout.run.stamp)


def _ground(axes: plt.Axes, rollout: Rollout, replica: str, number: int) -> None:
    for span in rollout.spans:
        if span.replica == replica and span.phase in GROUND:
            axes.broken_barh(
                [(span.begin_s, span.end_s - span.begin_s)],
                (number - LANE / 2, LANE),
                facecolor=GROUND[span.phase],
                alpha=0.25,
                linewidth=0,
            )


def _bars(axes: plt.Axes, table: pd.DataFrame, chosen: pd.Series, number: int, colour: str) -> None:
    """As many lanes as requests overlap; in each, one after the other."""
    lanes = lanes_of(table)
    deep = max(lanes, default=0) + 1
    height = LANE / max(deep, MOST_DEEP)
    for lane, (_, row), is_mine in zip(
        lanes, table.sort_values("sent_s").iterrows(), _in_order(table, chosen), strict=True
    ):
        if is_mine:
            bottom = number - LANE / 2 + (lane + 0.1) * height
            width = float(row["last_token_s"] - row["sent_s"])
            axes.broken_barh(
                [(float(row["sent_s"]), width)], (bottom, 0.8 * height), facecolor=colour, linewidth=0
            )


def lanes_of(table: pd.DataFrame) -> list[int]:
    """The first lane that is free when each request is sent, in the order of sending."""
    free_s: list[float] = []
    told = []
    for _, row in table.sort_values("sent_s").iterrows():
        begin_s, end_s = float(row["sent_s"]), float(row["last_token_s"])
        lane = next((k for k, until_s in enumerate(free_s) if until_s <= begin_s), len(free_s))
        if lane == len(free_s):
            free_s.append(0.0)
        free_s[lane] = end_s
        told.append(lane)
    return told


def _in_order(table: pd.DataFrame, chosen: pd.Series) -> list[bool]:
    return [bool(it) for it in chosen.loc[table.sort_values("sent_s").index]]


def _legend(figure: plt.Figure, colour: dict[str, str], rollout: Rollout, lost: int) -> None:
    shown = {span.phase for span in rollout.spans}
    named = {"draining": "drains", "stopping": "ends", "starting": "starts", "given up": "given up"}
    handles: list[plt.Artist] = [
        plt.Rectangle((0, 0), 1, 1, facecolor=it, label=f"answered by {name}") for name, it in colour.items()
    ]
    handles += [
        plt.Rectangle((0, 0), 1, 1, facecolor=GROUND[phase], alpha=0.25, label=told)
        for phase, told in named.items()
        if phase in shown
    ]
    if lost:
        handles.append(plt.Line2D([], [], marker="x", linestyle="none", color=style.REFUSED, label="lost"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=10)


def _alt(rollout: Rollout, versions: list[str]) -> str:
    counted = [
        f"{version}: {int((rollout.run.requests['model_version'] == version).sum())}" for version in versions
    ]
    ok = int((rollout.run.requests["status"] == Status.OK).sum())
    spans = "; ".join(
        f"{span.replica} {span.phase} from {span.begin_s:.0f} to {span.end_s:.0f} s"
        for span in rollout.spans
        if span.phase != "serving"
    )
    return (
        f"{ok} of {len(rollout.run.requests)} requests ended well ({', '.join(counted)}). {spans}. At the "
        "least "
        f"{rollout.fewest} of {len(rollout.replicas)} replicas served."
    )
