"""One look for every figure: the only place where a colour, a font size or a line style is chosen."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from IPython.display import HTML, display
from matplotlib.figure import Figure

from kilocard.record import Kind, Stamp

INK = "#1f2328"
FAINT = "#8b949e"
PREFILL = "#d55e00"
DECODE = "#0072b2"
WAITING = "#9a9a9a"
REFUSED = "#c0392b"
KV = "#009e73"
WEIGHTS = "#5b7fa6"
STATE = "#cc79a7"
OVERHEAD = "#b8b8b8"
SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
"""Okabe and Ito's colours in a fixed order, for cards, replicas and policies."""

LINE: dict[Kind, dict[str, Any]] = {
    Kind.MEASURED: {"linestyle": "-", "marker": "o", "markersize": 5},
    Kind.EMULATED: {"linestyle": ":", "marker": "o", "markersize": 4},
    Kind.SIMULATED: {"linestyle": "--", "marker": "none"},
    Kind.PUBLISHED: {"linestyle": "none", "marker": "o", "markersize": 6, "markerfacecolor": "none"},
    Kind.DERIVED: {"linestyle": "-", "linewidth": 1.1, "marker": "none"},
}
"""How each kind of number is drawn, so that none passes for another."""

_RC = {
    "figure.figsize": (6.4, 3.2),
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.size": 11.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.alpha": 0.22,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.9,
    "legend.frameon": False,
    "legend.fontsize": 10.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "kilocard",
}

_VARIABLES = {
    INK: "ink",
    FAINT: "faint",
    PREFILL: "prefill",
    DECODE: "decode",
    WAITING: "waiting",
    KV: "kv",
    REFUSED: "refused",
    WEIGHTS: "weights",
    STATE: "state",
    OVERHEAD: "overhead",
}


@contextmanager
def look() -> Iterator[None]:
    """Draw in the book's style, whatever the notebook's own settings are."""
    with mpl.rc_context(_RC):
        yield


def line(kind: Kind | str, colour: str, **more: Any) -> dict[str, Any]:
    """The line that a number of this kind is drawn with, in this colour."""
    return {**LINE[Kind(kind)], "color": colour, "markeredgecolor": colour, **more}


def show(figure: Figure, *, title: str, alt: str, stamp: Stamp | str) -> None:
    """Display a figure that follows the page's light or dark colours and can be read aloud.

    `title` is one sentence that says what to see; `alt` says what is drawn, with its numbers;
    `stamp` says where the numbers come from.
    """
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", transparent=True, bbox_inches="tight", pad_inches=0.05, metadata={"Date": None}
    )
    plt.close(figure)
    display(HTML(framed(accessible_svg(buffer.getvalue(), alt), title, stamp)))


def framed(body: str, title: str, stamp: Stamp | str) -> str:
    """A figure's frame: the title above, the stamp below, whatever is drawn between them."""
    caption = html.escape(stamp.caption if isinstance(stamp, Stamp) else stamp)
    caption = re.sub(r"(?<=\d)-(?=\d\d\b)", "\N{NON-BREAKING HYPHEN}", caption)  # a date stays on one line
    return (
        '<figure class="kc-figure" style="margin:1.4em 0;max-width:46rem">'
        f'<figcaption style="font-weight:600;margin-bottom:.4em">{html.escape(title)}</figcaption>{body}'
        f'<div class="kc-stamp" style="font-size:.75em;opacity:.75;text-align:right">{caption}</div></figure>'
    )


def accessible_svg(svg: str, alt: str) -> str:
    """An inline SVG: scalable, named for a screen reader, in the page's font and colours."""
    body = svg[svg.index("<svg") :]
    view_box = re.search(r'viewBox="[^"]*"', body)
    assert view_box, "matplotlib writes a viewBox"
    inside = body[body.index(">") + 1 :]
    inside = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", inside, flags=re.DOTALL)
    inside = re.sub(r'<g id="[^"]*"', "<g", inside)
    inside = re.sub(r"font-family: [^;\"]*", "font-family: inherit", inside)
    inside = re.sub(r"\bfont: (\S+ )?([\d.]+px) [^;\"]*", r"font: \g<1>\2 inherit", inside)
    for colour, name in _VARIABLES.items():
        inside = inside.replace(colour, f"var(--kc-{name}, {colour})")
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'role="img" aria-label="{html.escape(alt, quote=True)}" {view_box[0]} '
        f'style="width:100%;height:auto;display:block">{inside}'
    )
