"""Curves of one quantity on another, each drawn as its kind demands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

from kilocard.notebook import style
from kilocard.record import Kind, Stamp


@dataclass(frozen=True, slots=True)
class Curve:
    """A named series of points and how its numbers came to be."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    kind: Kind
    colour: str = style.DECODE
    joined: bool = False
    """Join published points by a faint line, where they are one sweep."""


def curves_figure(
    curves: Sequence[Curve],
    *,
    title: str,
    x_label: str,
    y_label: str,
    stamp: Stamp | str,
    log_x: bool = False,
    log_y: bool = False,
    mark_x: tuple[float, str] | None = None,
) -> None:
    """Draw the curves on one pair of axes; `mark_x` puts a named vertical line."""
    with style.look():
        figure, axes = plt.subplots()
        draw_curves(axes, curves)
        if mark_x:
            mark(axes, *mark_x)
        label_axes(axes, x_label, y_label, log_x=log_x, log_y=log_y)
        axes.legend()
        style.show(figure, title=title, alt=curves_alt(curves, x_label, y_label), stamp=stamp)


def mark(axes: plt.Axes, x: float, name: str, colour: str = style.FAINT) -> None:
    """A named vertical line, its name to the left of it at the top."""
    axes.axvline(x, color=colour, linewidth=1, zorder=0)
    place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    axes.annotate(name, (x, 1), xytext=(-4, -12), ha="right", fontsize=9.5, **place)


def draw_curves(axes: plt.Axes, curves: Sequence[Curve]) -> None:
    """Draw each curve with the line and marker of its kind."""
    for curve in curves:
        if curve.joined:
            axes.plot(curve.x, curve.y, color=curve.colour, linewidth=0.8, alpha=0.5)
        axes.plot(
            curve.x, curve.y, **style.line(curve.kind, curve.colour), label=f"{curve.name} ({curve.kind})"
        )


def label_axes(
    axes: plt.Axes, x_label: str, y_label: str, *, log_x: bool = False, log_y: bool = False
) -> None:
    """Name the axes with their units; a logarithmic axis says so; a linear one starts at zero."""
    if log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(f"{x_label} (log)" if log_x else x_label)
    axes.set_ylabel(f"{y_label} (log)" if log_y else y_label)


def curves_alt(curves: Sequence[Curve], x_label: str, y_label: str) -> str:
    """The curves in words: the kind, and the value at each end."""
    return f"{y_label} on {x_label}. {'; '.join(_ends(curve) for curve in curves if len(curve.x))}."


def _ends(curve: Curve) -> str:
    first, last = (f"{curve.y[place]:.3g} at {curve.x[place]:.3g}" for place in (0, -1))
    return f"{curve.name}, {curve.kind}: from {first} to {last}"
