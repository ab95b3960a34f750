"""The book's chapters: which notebooks there are, in the order of its table of contents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kilocard.errors import KilocardError

TOC = "_toc.yml"


@dataclass(frozen=True, slots=True)
class Chapter:
    """One notebook of the book; `path` is relative to the book's root."""

    path: Path
    title: str
    needs_engine: bool


def book_root(start: Path | None = None) -> Path:
    """The checkout that `start` (the working directory) is in: the nearest folder with a `_toc.yml`."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / TOC).is_file():
            return folder
    raise KilocardError(f"no book at {start}: run this inside a checkout of Kilocard, where {TOC} lies")


def page_paths(root: Path) -> list[Path]:
    """Every page of the table of contents, relative to the root, with its ending."""
    try:
        toc = yaml.safe_load((root / TOC).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:80]
        raise KilocardError(f"cannot read {TOC}: {reason}; restore it with git") from error
    return [_with_ending(root, name) for name in _names(toc)]


def chapters(root: Path) -> list[Chapter]:
    """The notebooks among the pages, in reading order."""
    return [_chapter(root, path) for path in page_paths(root) if path.suffix == ".ipynb"]


def _names(entry: Any) -> Iterator[str]:
    if isinstance(entry, list):
        for part in entry:
            yield from _names(part)
    elif isinstance(entry, dict):
        for key in ("root", "file"):
            if key in entry:
                yield str(entry[key])
        for key in ("parts", "chapters", "sections"):
            yield from _names(entry.get(key, []))


def _with_ending(root: Path, name: str) -> Path:
    for ending in ("", ".md", ".ipynb"):
        if (root / f"{name}{ending}").is_file():
            return Path(f"{name}{ending}")
    raise KilocardError(f"{TOC} names {name}, but there is no {name}.md or {name}.ipynb: mend the entry")


def _chapter(root: Path, path: Path) -> Chapter:
    try:
        cells = json.loads((root / path).read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells]
        kinds = [cell["cell_type"] for cell in cells]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise KilocardError(f"{path} is no notebook ({str(error)[:60]}): restore it with git") from error
    headings = (line for source in sources for line in source.splitlines() if line.startswith("# "))
    return Chapter(
        path=path,
        title=next(headings, f"# {path.stem}")[2:].strip(),
        needs_engine=any(
            kind == "code" and "kilocard.launch" in source
            for kind, source in zip(kinds, sources, strict=True)
        ),
    )
