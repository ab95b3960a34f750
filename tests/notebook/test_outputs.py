"""What is stored of an output does not depend on the box, the run, or a living kernel."""

import copy
import itertools
from pathlib import Path

import nbformat
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kilocard.notebook.outputs import WIDGET_VIEW, normalise, without_machine_paths

ROOT = Path("/srv/checkout")

streams = st.builds(
    lambda name, text: new_output("stream", name=name, text=text),
    st.sampled_from(["stdout", "stderr"]),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
)
results = st.builds(lambda text: new_output("display_data", data={"text/plain": text}), st.text(max_size=8))
widgets = st.just(new_output("display_data", data={"text/plain": "VBox()", WIDGET_VIEW: {"model_id": "1"}}))
outputs = st.lists(streams | results | widgets, max_size=6)


def notebook_of(*outputs: nbformat.NotebookNode) -> nbformat.NotebookNode:
    cell = new_code_cell("work()", outputs=[copy.deepcopy(output) for output in outputs], execution_count=7)
    cell.metadata["execution"] = {"iopub.status.busy": "2026-01-01T00:00:00Z"}
    return new_notebook(cells=[cell], metadata={"widgets": {"state": {}}})


@given(outputs)
def test_normalising_twice_is_normalising_once(made: list[nbformat.NotebookNode]) -> None:
    once = normalise(notebook_of(*made), ROOT)
    assert normalise(copy.deepcopy(once), ROOT) == once


@given(outputs)
def test_no_stream_text_is_lost_and_neighbours_are_merged(made: list[nbformat.NotebookNode]) -> None:
    kept = normalise(notebook_of(*made), ROOT).cells[0].outputs
    for name in ("stdout", "stderr"):
        before, after = (
            "".join(output.text for output in some if output.get("name") == name) for some in (made, kept)
        )
        assert before == after
    assert all(
        not (left.output_type == right.output_type == "stream" and left.name == right.name)
        for left, right in itertools.pairwise(kept)
    )


def test_what_needs_a_living_kernel_or_tells_the_time_is_gone() -> None:
    widget = new_output("display_data", data={"text/plain": "VBox()", WIDGET_VIEW: {"model_id": "1"}})
    stored = normalise(notebook_of(widget), ROOT)
    assert "widgets" not in stored.metadata
    assert stored.cells[0].outputs == []
    assert stored.cells[0].metadata == {}
    assert stored.cells[0].execution_count == 1


def test_paths_of_the_machine_become_relative() -> None:
    home = str(Path.home())
    text = f"{ROOT}/data/facts, {ROOT}, {home}/.cache/model"
    assert without_machine_paths(text, ROOT) == "data/facts, ., ~/.cache/model"
