"""What a stored notebook must be: run from top to bottom, readable, and the same on every box."""

import copy
import html
import re
from pathlib import Path

import nbformat
import pytest

from kilocard.notebook.chapters import chapters
from kilocard.notebook.outputs import normalise
from kilocard.record import Kind

pytestmark = pytest.mark.book

ROOT = Path(__file__).parents[2]
LONGEST_CELL_LINES = 20
PATHS = [chapter.path for chapter in chapters(ROOT)]
HOME = re.compile(r"/(home|Users)/\w+|(?<![\w.])/root/")


@pytest.fixture(scope="module", params=PATHS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / request.param, as_version=4)


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def html_outputs(notebook: nbformat.NotebookNode) -> list[str]:
    outputs = (output for cell in code_cells(notebook) for output in cell.outputs)
    return [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]


def test_it_opens_with_its_title(notebook: nbformat.NotebookNode) -> None:
    titles = [
        line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.splitlines()
    ]
    assert notebook.cells[0].source.startswith("# ")
    assert sum(line.startswith("# ") for line in titles) == 1


def test_it_was_run_from_top_to_bottom(notebook: nbformat.NotebookNode) -> None:
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1)), "run `make refresh` and commit the outputs"


def test_no_cell_failed(notebook: nbformat.NotebookNode) -> None:
    failed = [
        cell.source for cell in code_cells(notebook) if any(o.output_type == "error" for o in cell.outputs)
    ]
    assert not failed


def test_a_cell_can_be_read_at_a_glance(notebook: nbformat.NotebookNode) -> None:
    long = [
        cell.source for cell in code_cells(notebook) if len(cell.source.splitlines()) > LONGEST_CELL_LINES
    ]
    assert not long, f"over {LONGEST_CELL_LINES} lines: move work into the package"


def test_it_names_no_path_of_a_machine(notebook: nbformat.NotebookNode) -> None:
    text = nbformat.writes(notebook)
    assert str(ROOT) + "/" not in text
    assert not HOME.search(text), HOME.search(text)


def test_it_is_stored_in_its_normal_form(notebook: nbformat.NotebookNode) -> None:
    assert normalise(copy.deepcopy(notebook), ROOT) == notebook, (
        "written by hand? `make refresh` stores it right"
    )


def test_a_figure_says_where_its_numbers_come_from(notebook: nbformat.NotebookNode) -> None:
    for output in html_outputs(notebook):
        for figure in re.findall(r"<figure\b.*?</figure>", output, flags=re.DOTALL):
            title = _text(re.search(r"<figcaption\b[^>]*>(.*?)</figcaption>", figure, flags=re.DOTALL))
            stamp = _text(re.search(r'class="kc-stamp"[^>]*>(.*?)</div>', figure, flags=re.DOTALL))
            assert title, f"a figure without a title: {figure[:200]}"
            assert any(kind.value in stamp.lower() for kind in Kind), f"{title!r} names no kind: {stamp!r}"


def test_a_picture_can_be_read_aloud(notebook: nbformat.NotebookNode) -> None:
    for output in html_outputs(notebook):
        for svg in re.findall(r"<svg\b[^>]*>", output):
            alt = re.search(r'aria-label="([^"]*)"', svg)
            assert 'aria-hidden="true"' in svg or (alt and len(alt[1]) > 20), (
                f"no alternative text: {svg[:200]}"
            )
    for cell in code_cells(notebook):
        if any({"image/png", "image/svg+xml"} & output.get("data", {}).keys() for output in cell.outputs):
            mystnb = cell.metadata.get("mystnb", {})
            assert mystnb.get("image", {}).get("alt"), f"no alternative text: {cell.source[:100]}"
            assert mystnb.get("figure", {}).get("caption"), f"no caption: {cell.source[:100]}"


def _text(found: re.Match[str] | None) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", found[1])).strip() if found else ""


def test_a_widgets_output_is_not_compared(notebook: nbformat.NotebookNode) -> None:
    for cell in code_cells(notebook):
        if cell.source.startswith("panels."):
            assert "nbval-ignore-output" in cell.metadata.get("tags", [])
