"""Policies in order, and what chance does to an order: requests outside the promise, in per cent."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import matplotlib.pyplot as plt

from kilocard.notebook import style
from kilocard.notebook.leaderboard import Score, Standing
from kilocard.record import Kind, Stamp

ROW_INCHES = 0.3
MARKERS = "osD^v"
LEAST_PERCENT = 0.05
"""None at all has no place on a logarithmic axis."""


def outside_percent(score: Score | Standing) -> float:
    """Of a score, or of a whole line's held-out traffic."""
    return 100 * (1 - score.goodput)


def leaderboard_figure(
    board: Sequence[Standing], *, title: str, stamp: Stamp | str, own: Collection[str] = ()
) -> None:
    """A row a policy, the best above: a mark for each held-out setting, and a bar at their mean. Names in
    `own` stand out."""
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, ROW_INCHES * len(board) + 1.5))
        for row, standing in enumerate(board):
            shares = {name: outside_percent(score) for name, score in standing.held_out.items()}
            drawn = [max(LEAST_PERCENT, share) for share in shares.values()]
            axes.plot([min(drawn), max(drawn)], [row, row], "--", color=style.FAINT, linewidth=1)
            for place, (name, share) in enumerate(zip(shares, drawn, strict=True)):
                axes.plot(
                    share, row, MARKERS[place % len(MARKERS)], color=style.SERIES[place % len(style.SERIES)],
                    markerfacecolor="none", markersize=6.5, markeredgewidth=1.5,
                    label=None if row else name,
                )  # fmt: skip
            axes.plot(
                max(LEAST_PERCENT, outside_percent(standing)), row, "|", color=style.INK, markersize=15,
                markeredgewidth=2, label=None if row else "mean of these",
            )  # fmt: skip
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_yticks(range(len(board)), [standing.policy for standing in board])
        for label, standing in zip(axes.get_yticklabels(), board, strict=True):
            label.set_fontweight("bold" if standing.policy in own else "normal")
        axes.invert_yaxis()
        axes.set_xlabel(f"Requests outside the promise, % ({Kind.SIMULATED}, log)")
        figure.legend(loc="outside upper center", ncols=3)
        alt = (
            "Requests outside the promise in per cent, mean of held-out traffic and by setting. "
            + "; ".join(
                f"{standing.policy} {outside_percent(standing):.3g}: "
                + ", ".join(
                    f"{name} {outside_percent(score):.3g}" for name, score in standing.held_out.items()
                )
                for standing in board
            )
        )
        style.show(figure, title=title, alt=alt + ".", stamp=stamp)


def luck_figure(pairs: Sequence[tuple[Score, Score]], *, title: str, stamp: Stamp | str) -> None:
    """A mark for each policy: outside the promise on the traffic that chose (across), and on traffic held
    out (up). The one that would have been chosen is filled."""
    across, up = ([outside_percent(pair[part]) for pair in pairs] for part in (0, 1))
    chosen = across.index(min(across))
    mean_up = sum(up) / len(up)
    with style.look():
        figure, axes = plt.subplots(figsize=(6.4, 3.2))
        axes.plot(
            across, up, "o", color=style.WAITING, markerfacecolor="none", markersize=7, label="a policy"
        )
        axes.plot(across[chosen], up[chosen], "o", color=style.DECODE, markersize=8, label="the one chosen")
        axes.axhline(
            mean_up, color=style.INK, linewidth=1.1, linestyle="--", label="mean of all, on other seeds"
        )
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Outside the promise on the seed that chose, %")
        axes.set_ylabel("On other seeds, %")
        figure.legend(loc="outside upper center", ncols=3)
        alt = (
            f"{len(pairs)} policies; outside the promise on the seed that chose from {min(across):.3g} to "
            f"{max(across):.3g} %, on other seeds from {min(up):.3g} to {max(up):.3g} %. The one chosen had "
            f"{across[chosen]:.3g} % and has {up[chosen]:.3g} %; the mean of all is {mean_up:.3g} %."
        )
        style.show(figure, title=title, alt=alt, stamp=stamp)
