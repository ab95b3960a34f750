"""Tables by one helper: aligned, with units in the head, and a line that says where they come from."""

from __future__ import annotations

import html
from collections.abc import Sequence

from IPython.display import HTML, display

from kilocard.notebook.style import framed
from kilocard.record import Stamp

LONG_CHARACTERS = 36
_CELL = 'style="padding:.25em .8em;text-align:{align};border-bottom:1px solid var(--kc-faint,#d0d7de)"'


def table(head: Sequence[str], rows: Sequence[Sequence[object]], *, title: str, stamp: Stamp | str) -> None:
    """Show rows under a head; numbers to the right, words to the left."""
    numeric = [all(_is_number(row[column]) for row in rows) for column in range(len(head))]
    top = "".join(_cell("th", name, right) for name, right in zip(head, numeric, strict=True))
    body = "".join(
        "<tr>"
        + "".join(_cell("td", value, right) for value, right in zip(row, numeric, strict=True))
        + "</tr>"
        for row in rows
    )
    display(
        HTML(
            framed(
                '<div class="kc-scroll" style="overflow-x:auto">'
                '<table class="kc-table" style="border-collapse:collapse">'
                f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>",
                title,
                stamp,
            )
        )
    )


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(tag: str, value: object, right: bool) -> str:
    style = _CELL.format(align="right" if right else "left")
    scope = ' scope="col"' if tag == "th" else ""
    text = _text(value)
    long = ' class="kc-long"' if len(text) > LONG_CHARACTERS else ""
    return f"<{tag}{scope}{long} {style}>{html.escape(text)}</{tag}>"


def _text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
