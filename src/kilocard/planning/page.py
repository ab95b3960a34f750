"""A document of sections, as Markdown and as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

BAR = '<span class="track"><span class="bar" style="width:{:.1f}%"></span></span>'
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-weight: 500; } h2 { margin-top: 2.2em; font-weight: 600; }
.table { overflow-x: auto; } table { border-collapse: collapse; margin: 1em 0; }
th, td { text-align: left; padding: .3em .8em .3em 0; border-bottom: 1px solid #8884; vertical-align: top; }
.bar { display: inline-block; height: .8em; background: #0f766e; vertical-align: middle; }
.track { display: inline-block; width: 12rem; max-width: 40vw; }
p.lead { font-size: 1.15em; }
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A title, paragraphs, a table (its header first), points; `bars` are shares drawn beside the rows."""

    title: str
    text: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    points: tuple[str, ...] = ()
    bars: tuple[float, ...] = field(default=())


def as_markdown(title: str, sections: Sequence[Section]) -> str:
    """With the tables of GitHub's Markdown."""
    lines = [f"# {_plain(title)}", ""]
    for section in sections:
        lines += [f"## {_plain(section.title)}", ""]
        for paragraph in section.text:
            lines += [_plain(paragraph), ""]
        if section.table:
            head, *rows = section.table
            lines += [_row(head), _row(["---"] * len(head)), *map(_row, rows), ""]
        if section.points:
            lines += [*(f"- {_plain(point)}" for point in section.points), ""]
    return "\n".join(lines)


def as_html(title: str, sections: Sequence[Section]) -> str:
    """Light or dark as its reader has it."""
    body = [f"<h1>{escape(title)}</h1>"]
    for number, section in enumerate(sections):
        body.append(f"<h2>{escape(section.title)}</h2>")
        lead = ' class="lead"' if number == 0 else ""
        body += [f"<p{lead}>{escape(paragraph)}</p>" for paragraph in section.text]
        if section.table:
            body.append(_table(section))
        if section.points:
            body.append(f"<ul>{''.join(f'<li>{escape(point)}</li>' for point in section.points)}</ul>")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body>\n{chr(10).join(body)}\n</body></html>\n"
    )


def _table(section: Section) -> str:
    head, *rows = section.table
    bars = [*section.bars, *([None] * (len(rows) - len(section.bars)))]
    extra = "<th></th>" if section.bars else ""
    lines = [f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}{extra}</tr>"]
    for row, bar in zip(rows, bars, strict=True):
        drawn = "" if bar is None else f"<td>{BAR.format(100 * bar)}</td>"
        lines.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}{drawn}</tr>")
    return f'<div class="table"><table>{"".join(lines)}</table></div>'


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_plain(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _plain(text: str) -> str:
    """One line, in which nothing is markup."""
    return " ".join(text.split()).replace("<", "&lt;")
