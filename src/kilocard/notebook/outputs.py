"""Outputs as they are stored: the same on every run and box, but for what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbformat import NotebookNode

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_TEXTS = ("text/plain", "text/html", "text/markdown", "image/svg+xml")


def normalise(notebook: NotebookNode, root: Path) -> NotebookNode:
    """Strip, in place, what would change a stored notebook without a change of content.

    Gone: timings, widget state and views (they need a living kernel), the kernel's own name and version,
    this machine's paths. Execution counts are numbered 1, 2, 3 over the code cells.
    """
    notebook.metadata.pop("widgets", None)
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata["language_info"] = {"name": "python"}
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, start=1):
        cell.execution_count = count
        cell.metadata.pop("execution", None)
        cell.outputs = _merged(
            [_clean(output, count, root) for output in cell.outputs if not _is_widget(output)]
        )
    return notebook


def without_machine_paths(text: str, root: Path) -> str:
    """Paths inside the checkout become relative to it, those in the home folder begin with ~."""
    text = text.replace(f"{root}/", "").replace(str(root), ".")
    home = str(Path.home())
    return text if home == "/" else text.replace(home, "~")


def _is_widget(output: NotebookNode) -> bool:
    return WIDGET_VIEW in output.get("data", {})


def _clean(output: NotebookNode, count: int, root: Path) -> NotebookNode:
    if "execution_count" in output:
        output.execution_count = count
    if output.output_type == "stream":
        output.text = without_machine_paths(output.text, root)
    data: dict[str, Any] = output.get("data", {})
    for kind in _TEXTS:
        if kind in data:
            data[kind] = without_machine_paths(data[kind], root)
    return output


def _merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Neighbouring pieces of one stream as one output, however the kernel flushed them."""
    merged: list[NotebookNode] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if (
            last is not None
            and output.output_type == last.output_type == "stream"
            and output.name == last.name
        ):
            last.text += output.text
        else:
            merged.append(output)
    return merged
