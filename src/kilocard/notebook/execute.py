"""Run the book's notebooks from top to bottom, one after the other, on one shared engine."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets.config import Config

from kilocard.launch import default_spec, launch
from kilocard.notebook.chapters import Chapter
from kilocard.notebook.outputs import normalise, without_machine_paths
from kilocard.record import Kind

CELL_TIMEOUT_S = 600
QUIET_S = 15.0
KERNEL_EXIT_S = 2.0
KERNEL = "python3"
READ_EMULATED = """```{admonition} Emulated
:class: warning
No real engine answered while this page was made: an engine model played one, on the box that the book's
records are from. Every figure here says so; where the text says *measured*, read *emulated*.
```"""

Say = Callable[[str], None]


class ChapterError(Exception):
    """A cell that did not run: its message is one block with chapter, cell and error."""


@dataclass(frozen=True, slots=True)
class Executed:
    """What became of one chapter; `seconds` is None where the stored outputs were kept."""

    chapter: Chapter
    seconds: float | None


def execute_book(root: Path, chosen: Sequence[Chapter], into: Path, say: Say) -> list[Executed]:
    """Execute the chapters of the book at `root` in order and write them beneath `into`.

    `into` is the root itself to renew the stored outputs, or a build folder. One engine serves all chapters
    that ask for the book's default one. Without any, an emulated one stands in, and every figure says so; but
    in place those chapters keep their stored outputs, and `say` names them. Raises ChapterError at the first
    cell that fails.
    """
    done: list[Executed] = []
    in_place = into.resolve() == root.resolve()
    environment = kernel_environment(root, in_place=in_place)
    with ExitStack() as engine:
        engine_runs = emulated = False
        for number, chapter in enumerate(chosen, start=1):
            label = f"[{number}/{len(chosen)}] {chapter.title}"
            if chapter.needs_engine and in_place and not has_engine():
                _write(nbformat.read(root / chapter.path, as_version=4), into / chapter.path)
                say(f"{label}: stored outputs kept, for there is no engine here (kilocard doctor says why)")
                done.append(Executed(chapter, None))
                continue
            if chapter.needs_engine and not engine_runs:
                say("starting the engine that the chapters share")
                started = time.monotonic()
                shared = engine.enter_context(launch(default_spec()))
                emulated = shared.kind is Kind.EMULATED
                if emulated:
                    say(f"LEFT OUT: real engines; {shared.said}")
                engine_runs = True
                say(f"engine ready after {time.monotonic() - started:.0f} s")
            say(f"{label} ...")
            started = time.monotonic()
            notebook = execute_notebook(root, chapter, environment, say)
            seconds = time.monotonic() - started
            if chapter.needs_engine and emulated:
                notebook.cells.insert(1, nbformat.v4.new_markdown_cell(READ_EMULATED))
            _write(notebook, into / chapter.path)
            say(f"{label}: {seconds:.0f} s")
            done.append(Executed(chapter, seconds))
    return done


def execute_notebook(
    root: Path, chapter: Chapter, environment: Mapping[str, str], say: Say = lambda _: None
) -> NotebookNode:
    """One chapter, executed in its own folder by this Python's kernel, its outputs normalised.

    `say` hears of cells that begin, where it has heard nothing for a while.
    """
    notebook = nbformat.read(root / chapter.path, as_version=4)
    progress = _Progress(say, len(notebook.cells))
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        kernel_name=KERNEL,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str((root / chapter.path).parent)}},
        on_cell_start=progress.begin,
        config=Config({"KernelManager": {"shutdown_wait_time": KERNEL_EXIT_S}}),
    )
    client.log.setLevel(logging.CRITICAL)
    try:
        client.execute(env=dict(environment), stderr=subprocess.DEVNULL)
    except (Exception, asyncio.CancelledError) as error:
        if _was_signalled(client):
            raise KeyboardInterrupt from error
        if not isinstance(error, (CellExecutionError, CellTimeoutError, DeadKernelError)):
            raise
        raise ChapterError(_failure(root, chapter, notebook, progress.cell, error)) from None
    return normalise(notebook, root)


class _Progress:
    """Which cell runs; and a line at the first one that begins after a quiet while."""

    def __init__(self, say: Say, cells: int) -> None:
        self.cell = 0
        self._say, self._cells, self._last_s = say, cells, time.monotonic()

    def begin(self, cell: NotebookNode, cell_index: int) -> None:
        """nbclient's call at the start of each cell."""
        self.cell = cell_index
        if time.monotonic() - self._last_s > QUIET_S:
            self._say(f"      cell {cell_index + 1} of {self._cells}")
            self._last_s = time.monotonic()


def has_engine() -> bool:
    """Whether a chapter can be served here: vLLM is installed, or an engine's URL is named."""
    installed = all(find_spec(name) is not None for name in ("vllm", "torch"))
    return installed or bool(os.environ.get("KILOCARD_ENGINE_URL"))


def kernel_environment(root: Path, *, in_place: bool) -> dict[str, str]:
    """What a kernel of the book sees: the reader's environment without their own start-up files.

    Runs that a chapter records go beside the outputs: to `data/measured` when these are to be committed,
    else to the build folder.
    """
    environment = {
        key: value for key, value in os.environ.items() if key not in {"MPLBACKEND", "PYTHONSTARTUP"}
    }
    own = root / "_build" / "ipython"
    own.mkdir(parents=True, exist_ok=True)  # else IPython takes a temporary folder, and leaves it
    environment["IPYTHONDIR"] = str(own)
    environment["JUPYTER_PREFER_ENV_PATH"] = "1"
    if not in_place:
        environment["KILOCARD_MEASURED"] = str(root / "_build" / "measured")
    return environment


def _was_signalled(client: NotebookClient) -> bool:
    """nbclient answers SIGINT and SIGTERM by ending the kernel; this is the trace that it leaves."""
    return getattr(client, "_async_cleanup_kernel_future", None) is not None


def _failure(root: Path, chapter: Chapter, notebook: NotebookNode, index: int, error: Exception) -> str:
    first_lines = notebook.cells[index].source.splitlines()[:12]
    return "\n".join(
        [
            f"{chapter.title} ({chapter.path}), cell {index + 1} of {len(notebook.cells)}, failed:",
            "",
            *(f"    {line}" for line in first_lines),
            "",
            *(f"    {line}" for line in _reason(error, root).splitlines()),
        ]
    )


def _reason(error: Exception, root: Path) -> str:
    if isinstance(error, CellExecutionError):
        text = f"{error.ename}: {error.evalue}"
    elif isinstance(error, CellTimeoutError):
        text = f"no end within {CELL_TIMEOUT_S} s"
    else:
        text = f"the kernel died ({error}): out of memory?"
    return without_machine_paths(re.sub(r"\x1b\[[0-9;]*m", "", text), root)


def _write(notebook: NotebookNode, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    nbformat.write(notebook, partial)
    partial.replace(path)
