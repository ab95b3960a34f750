"""Policies beside each other: what the median request and the slowest see, live and in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter

from kilocard.errors import KilocardError
from kilocard.notebook import style
from kilocard.record import Kind, Run
from kilocard.stats import e2e_s, percentile, ttft_s

ROW_INCHES, AROUND_INCHES = 0.5, 1.1
APART = 0.17
"""Rows between two kinds of one policy."""
CAP_POINTS = 7
SHARES = (0.5, 0.95)

Ends = tuple[float, float]


def policies_figure(runs: Mapping[str, Mapping[str, Run]], *, title: str) -> None:
    """Of each policy a line from P50 to P95, of TTFT and of whole ms a token: one for each kind of run.

    `runs` are by a name of the kind (a race, its forecast), then by policy; a kind may lack some of the
    policies. The stamp is the first run's.
    """
    policies = list(runs[max(runs, key=lambda kind: len(runs[kind]))])
    words = []
    with style.look():
        figure, panels = plt.subplots(
            1, 2, sharey=True, figsize=(6.4, AROUND_INCHES + ROW_INCHES * len(policies))
        )
        for axes, what, measure in zip(
            panels, ("TTFT, s", "ms a token"), (_ttft_s, _ms_a_token), strict=True
        ):
            for place, by_policy in enumerate(runs.values()):
                for number, (policy, run) in enumerate(by_policy.items()):
                    row = policies.index(policy)
                    ends, kind = _ends(measure(run.ok)), run.stamp.kind
                    at = row + APART * (2 * place - len(runs) + 1)
                    _draw(axes, ends, at, kind, label=f"P50 to P95, {kind}" if number == 0 else None)
                    words.append(f"{policy}, {kind}: {what} {ends[0]:.3g} to {ends[1]:.3g}")
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_xlabel(f"{what} (log)")
            axes.grid(axis="y", visible=False)
        panels[0].set_yticks(range(len(policies)), policies)
        panels[0].invert_yaxis()
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=len(runs))
        stamp = next(iter(next(iter(runs.values())).values())).stamp
        style.show(figure, title=title, alt=f"P50 to P95 by policy. {'; '.join(words)}.", stamp=stamp)


def _draw(axes: plt.Axes, ends: Ends, at: float, kind: Kind, label: str | None) -> None:
    """A line of its kind; one that has no marker gets ends that can be seen."""
    look: dict[str, Any] = style.line(kind, style.DECODE if kind is not Kind.SIMULATED else style.INK)
    if look.get("marker") == "none":
        look |= {"marker": "|", "markersize": CAP_POINTS}
    axes.plot(ends, [at, at], **look, label=label)


def _ends(values: pd.Series) -> Ends:
    p50, p95 = (percentile(values.dropna().to_numpy(float), share) for share in SHARES)
    if p50 is None or p95 is None:
        raise KilocardError(f"{len(values)} requests are too few for a P95: send 100 or more")
    return p50, p95


def _ttft_s(requests: pd.DataFrame) -> pd.Series:
    return ttft_s(requests).astype(float)


def _ms_a_token(requests: pd.DataFrame) -> pd.Series:
    """Of the whole answer, its wait included."""
    return 1000 * (e2e_s(requests) / requests["output_tokens"]).astype(float)
