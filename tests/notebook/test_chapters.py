"""The table of contents is the one list of chapters."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from kilocard.errors import KilocardError
from kilocard.notebook.chapters import book_root, chapters, page_paths


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "_toc.yml").write_text(
        "root: index\nparts:\n- caption: One\n  chapters:\n"
        "  - file: b\n    sections:\n    - file: a\n  - file: prose\n"
    )
    for name in ("index", "prose"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n")
    for name, code in (("a", "print(1)"), ("b", "from kilocard.launch import launch")):
        cells = [new_markdown_cell(f"# Title of {name}\n\nText."), new_code_cell(code)]
        nbformat.write(new_notebook(cells=cells), tmp_path / f"{name}.ipynb")
    return tmp_path


def test_chapters_come_in_reading_order_with_what_they_need(book: Path) -> None:
    found = chapters(book)
    assert [(str(one.path), one.title, one.needs_engine) for one in found] == [
        ("b.ipynb", "Title of b", True),
        ("a.ipynb", "Title of a", False),
    ]
    assert [str(path) for path in page_paths(book)] == ["index.md", "b.ipynb", "a.ipynb", "prose.md"]


def test_the_root_is_found_from_a_folder_inside(book: Path) -> None:
    inside = book / "deep" / "down"
    inside.mkdir(parents=True)
    assert book_root(inside) == book


def test_outside_a_checkout_the_way_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(KilocardError, match="inside a checkout"):
        book_root(tmp_path)


def test_a_page_that_is_not_there_is_named(book: Path) -> None:
    (book / "prose.md").unlink()
    with pytest.raises(KilocardError, match="names prose"):
        page_paths(book)


def test_a_broken_notebook_is_named(book: Path) -> None:
    (book / "a.ipynb").write_text("{")
    with pytest.raises(KilocardError, match=r"a\.ipynb is no notebook"):
        chapters(book)


@pytest.mark.parametrize("content", [b"[1,2", b"\xff\xfe", b"[" * 5000])
def test_a_broken_table_of_contents_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "_toc.yml").write_bytes(content)
    with pytest.raises(KilocardError, match="cannot read"):
        chapters(tmp_path)


@pytest.mark.parametrize("cells", ["1", "[1]", '[{"source": "x"}]', '[{"cell_type": "code"}]', "[" * 90000])
def test_a_broken_notebook_is_one_line(tmp_path: Path, cells: str) -> None:
    (tmp_path / "_toc.yml").write_text("root: one\n")
    (tmp_path / "one.ipynb").write_text(f'{{"cells": {cells}}}')
    with pytest.raises(KilocardError, match="is no notebook"):
        chapters(tmp_path)
