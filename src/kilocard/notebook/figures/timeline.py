"""An engine's steps as they were: one row a request, one column a step, and the cache beneath."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from kilocard.engine_model.watch import Step, Watched
from kilocard.notebook import style
from kilocard.notebook.style import DECODE, KV, PREFILL, WAITING

ROW_INCHES = 0.27
KV_INCHES = 1.0
GAP = 0.06
"""Of a column, between two steps."""


def timeline_figure(
    watched: Watched, *, title: str, stamp: str, in_time: bool = False, kv: bool = False
) -> None:
    """Prefill, decode and waiting of each request, step by step; `in_time` gives a step its duration.

    `kv` draws the cache's blocks beneath.
    """
    steps, count = watched.steps, len(watched.run.requests)
    edges = _edges(steps, in_time)
    rows = ROW_INCHES * (count + 1)
    with style.look():
        figure, axes = plt.subplots(
            1 + kv, 1, figsize=(6.4, rows + 1.1 + kv * KV_INCHES), sharex=True, squeeze=False,
            gridspec_kw={"height_ratios": (rows, KV_INCHES)[: 1 + kv]},
        )  # fmt: skip
        upper = axes[0, 0]
        for number in range(count):
            for name, colour, hatch in _KINDS:
                spans = [edges[at] for at, kind in enumerate(_life(steps, number)) if kind == name]
                upper.broken_barh(
                    [(left, width) for left, width in spans], (number + 0.6, 0.8), facecolor=colour,
                    hatch=hatch, edgecolor="white", linewidth=0, label=None if number else name,
                )  # fmt: skip
        upper.set_ylim(count + 0.5, 0.5)
        upper.set_yticks(range(1, count + 1))
        upper.set_ylabel("Request")
        upper.grid(False)
        shown = {kind for number in range(count) for kind in _life(steps, number)}
        handles = [plt.Rectangle((0, 0), 1, 1, facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0,
                                 label=name) for name, colour, hatch in _KINDS if name in shown]  # fmt: skip
        figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))
        if kv:
            _draw_kv(axes[1, 0], watched, edges)
        if not in_time:
            axes[-1, 0].xaxis.set_major_locator(MaxNLocator(integer=True))
        axes[-1, 0].set_xlabel("Milliseconds" if in_time else "Step")
        style.show(figure, title=title, alt=_alt(watched), stamp=stamp)


_KINDS = (
    ("waiting", WAITING, ""),
    ("thrown out, waiting", WAITING, "////"),
    ("prefill", PREFILL, ""),
    ("decode", DECODE, ""),
)


def _edges(steps: tuple[Step, ...], in_time: bool) -> list[tuple[float, float]]:
    """Left edge and width of each step's column."""
    if in_time:
        begin = steps[0].start_s
        return [(1000 * (step.start_s - begin), 1000 * step.seconds * (1 - GAP)) for step in steps]
    return [(at - 0.5 + GAP / 2, 1 - GAP) for at in range(1, len(steps) + 1)]


def _life(steps: tuple[Step, ...], number: int) -> Iterator[str]:
    """What a request did in each step; empty where it was not there."""
    began = False
    for step in steps:
        if number in step.prefilled or number in step.decoded:
            began = True
            yield "prefill" if number in step.prefilled else "decode"
        elif number in step.waiting:
            yield "thrown out, waiting" if began else "waiting"
        else:
            yield ""


def _draw_kv(axes: plt.Axes, watched: Watched, edges: list[tuple[float, float]]) -> None:
    for (left, width), step in zip(edges, watched.steps, strict=True):
        axes.bar(left, step.kv_blocks, width, align="edge", color=KV)
    axes.axhline(watched.kv_blocks, color=style.INK, linewidth=1)
    axes.set_ylim(0, watched.kv_blocks * 1.2)
    axes.set_ylabel("KV blocks")


def _alt(watched: Watched) -> str:
    """The steps of each request in words."""
    lives = []
    for number in range(len(watched.run.requests)):
        runs = [(kind, len(list(group))) for kind, group in groupby(_life(watched.steps, number)) if kind]
        lives.append(f"request {number + 1}: " + ", ".join(f"{kind} {steps}" for kind, steps in runs))
    peak = max(step.kv_blocks for step in watched.steps)
    return (
        f"{len(watched.steps)} steps of one engine, in steps a request: {'; '.join(lives)}. "
        f"At most {peak} of {watched.kv_blocks} KV blocks in use."
    )
