"""What commands print: one JSON object that any parser takes, or a table in which a name is only a name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from kilocard.record.plain import to_json


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object on stdout; null where a number is infinite or undefined."""
    print(to_json(content, indent=2), flush=True)


def print_pairs(title: str, pairs: Iterable[tuple[str, str]], notes: Iterable[str] = ()) -> None:
    """A title, a table of name and value, and remarks under it."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in pairs:
        table.add_row(plain(name), plain(value))
    printer = console()
    printer.print(plain(title), style="italic", soft_wrap=True)
    printer.print(table)
    for note in notes:
        printer.print(f"- {plain(note)}")


def console() -> Console:
    """A console as wide as the terminal, or wide enough for a whole row where there is none."""
    return Console(highlight=False, markup=False, emoji=False, width=None if os.isatty(1) else 160)


def plain(text: str) -> str:
    """The text with what would steer a terminal written out."""
    return "".join(sign if sign.isprintable() or sign == "\n" else repr(sign)[1:-1] for sign in text)


def number(value: float | None) -> str:
    """A number without needless digits; ? where unknown, - where there is none."""
    if value is None:
        return "?"
    return f"{value:g}" if value else "-"
