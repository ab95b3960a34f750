"""The build is strict, keeps a good site when a new one fails, and shows executed chapters."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from kilocard.errors import KilocardError
from kilocard.notebook.site import SiteError, build_site

pytestmark = pytest.mark.book


def write_chapter(path: Path, printed: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cell = new_code_cell(
        "say()", execution_count=1, outputs=[new_output("stream", name="stdout", text=printed)]
    )
    notebook = new_notebook(cells=[new_markdown_cell("# A chapter"), cell])
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    (root / "book").mkdir(parents=True)
    (root / "_config.yml").write_text(
        "title: A book\nexecute:\n  execute_notebooks: 'off'\nonly_build_toc_files: true\n"
    )
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/index\nchapters:\n- file: notebooks/one\n")
    (root / "book" / "index.md").write_text("# A book\n\n[On](../notebooks/one.ipynb)\n")
    write_chapter(root / "notebooks" / "one.ipynb", "as stored\n")
    return root


def test_a_build_shows_what_it_is_given_and_a_failed_one_changes_nothing(book: Path) -> None:
    html = book / "_build" / "html"
    write_chapter(book / "_build" / "executed" / "notebooks" / "one.ipynb", "as executed\n")
    index = build_site(book, html, book / "_build" / "executed")
    page = html / "notebooks" / "one.html"
    assert index == html / "index.html"
    assert "as executed" in page.read_text()

    (book / "book" / "index.md").write_text("# A book\n\n[On](nowhere.md)\n")
    with pytest.raises(SiteError, match=r"book/index\.md:3: WARNING.*nowhere"):
        build_site(book, html)
    assert "as executed" in page.read_text()


@pytest.mark.parametrize("place", [".", "..", "notebooks", "_config.yml"])
def test_a_site_takes_the_place_of_nothing_but_a_site(book: Path, place: str) -> None:
    before = sorted(book.rglob("*"))
    with pytest.raises(KilocardError, match="name a new folder"):
        build_site(book, book / place)
    assert sorted(book.rglob("*")) == before
