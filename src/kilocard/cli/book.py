"""`kilocard book`: run the chapters, build the site, look at its pages."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kilocard.errors import KilocardError, near_match
from kilocard.notebook.chapters import Chapter, book_root, chapters

if TYPE_CHECKING:
    from kilocard.notebook.execute import Executed

EXECUTED = Path("_build/executed")
SITE = Path("_build/html")
LOOK = Path("_build/look")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Only = Annotated[list[str] | None, typer.Option(help="A chapter by its notebook's name; may be repeated.")]

book = typer.Typer(help="Run the book's notebooks and build its site.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add `kilocard book`."""
    app.add_typer(book, name="book")


@book.command()
def build(as_json: AsJson = False) -> None:
    """Run every chapter on this box into a build folder, and build the site from that."""
    root = book_root()
    done = _run(root, chapters(root), root / EXECUTED)
    index = _site(root, root / SITE, root / EXECUTED)
    _report(as_json, done, index)


@book.command()
def execute(only: Only = None, in_place: bool = False, as_json: AsJson = False) -> None:
    """Run chapters into the build folder, or in place to renew the stored outputs."""
    root = book_root()
    done = _run(root, _chosen(root, only), root if in_place else root / EXECUTED)
    _report(as_json, done, None)


@book.command()
def site(out: Path | None = None, as_json: AsJson = False) -> None:
    """Build the site from the stored outputs, in seconds."""
    root = book_root()
    _report(as_json, [], _site(root, (out or root / SITE).resolve(), None))


@book.command()
def look(out: Path | None = None, as_json: AsJson = False) -> None:
    """Picture every page of the built site, wide and at phone width, light and dark."""
    from kilocard.notebook.look import picture_pages

    root = book_root()
    index = root / SITE / "index.html"
    if not index.is_file():
        raise KilocardError(f"no site at {index.parent}: build one with `kilocard book site` first")
    pictures = picture_pages(index.parent, out or root / LOOK)
    _print(
        as_json, {"pictures": [str(path) for path in pictures]}, f"{len(pictures)} pictures in {out or LOOK}"
    )


def _chosen(root: Path, only: list[str] | None) -> list[Chapter]:
    every = {chapter.path.stem: chapter for chapter in chapters(root)}
    for name in only or []:
        if name not in every:
            raise KilocardError(f"no chapter {name!r}: {near_match(name, every)}")
    return [chapter for name, chapter in every.items() if not only or name in only]


def _run(root: Path, chosen: list[Chapter], into: Path) -> list[Executed]:
    from kilocard.notebook.execute import ChapterError, execute_book

    try:
        return execute_book(root, chosen, into, _say)
    except ChapterError as failure:
        typer.echo(f"\n{failure}\n", err=True)
        raise typer.Exit(1) from None


def _site(root: Path, html: Path, notebooks: Path | None) -> Path:
    from kilocard.notebook.site import SiteError, build_site

    started = time.monotonic()
    try:
        index = build_site(root, html, notebooks)
    except SiteError as failure:
        typer.echo(f"The strict build of the site failed:\n\n{failure}\n", err=True)
        raise typer.Exit(1) from None
    _say(f"site built in {time.monotonic() - started:.0f} s")
    return index


def _report(as_json: bool, done: list[Executed], index: Path | None) -> None:
    record = {
        "chapters": [
            {
                "path": str(one.chapter.path),
                "title": one.chapter.title,
                "executed": one.seconds is not None,
                "wall_s": None if one.seconds is None else round(one.seconds, 1),
            }
            for one in done
        ],
        "site": None if index is None else str(index),
    }
    _print(as_json, record, f"{len(done)} chapters done" if index is None else f"The book: {index}")


def _print(as_json: bool, record: Mapping[str, object], line: str) -> None:
    typer.echo(json.dumps(record) if as_json else line)


def _say(line: str) -> None:
    typer.echo(line, err=True)
