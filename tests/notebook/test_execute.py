"""Chapters are run by a real kernel, stored in their normal form, and fail in one readable block."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from kilocard.emulator import emulated
from kilocard.launch.stand_in import stand_in_case
from kilocard.notebook.chapters import chapters
from kilocard.notebook.execute import ChapterError, execute_book, kernel_environment
from kilocard.specs.engine import EngineSpec

COUNT = "import os, sys\nprint(os.getcwd())\nprint('one', flush=True)\nprint('two', file=sys.stderr)\n6 * 7"


def a_book(root: Path, *sources: str) -> Path:
    """A book of one chapter with these code cells."""
    (root / "notebooks").mkdir(parents=True)
    (root / "_toc.yml").write_text("format: jb-book\nroot: index\nchapters:\n  - file: notebooks/only\n")
    (root / "index.md").write_text("# A book\n")
    cells = [nbformat.v4.new_markdown_cell("# The only chapter")]
    cells += [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), root / "notebooks" / "only.ipynb")
    return root


def test_a_chapter_runs_into_the_build_folder_and_leaves_its_source_alone(tmp_path: Path) -> None:
    root = a_book(tmp_path / "book", COUNT, "1 + 1")
    before = (root / "notebooks" / "only.ipynb").read_bytes()
    said: list[str] = []
    (done,) = execute_book(root, chapters(root), tmp_path / "out", said.append)
    assert (root / "notebooks" / "only.ipynb").read_bytes() == before
    assert done.seconds is not None and done.seconds > 0
    assert said[0].startswith("[1/1] The only chapter")

    stored = nbformat.read(tmp_path / "out" / "notebooks" / "only.ipynb", as_version=4)
    first, second = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert (first.execution_count, second.execution_count) == (1, 2)
    assert "execution" not in first.metadata
    assert [output.get("text") for output in first.outputs[:2]] == ["notebooks\none\n", "two\n"]
    assert second.outputs[0].data["text/plain"] == "2"


def test_a_cell_that_fails_is_named_with_its_chapter_and_error(tmp_path: Path) -> None:
    root = a_book(
        tmp_path, "1 + 1", "card = 'h100'\nraise ValueError(f'no {card} in ' + __import__('os').getcwd())"
    )
    with pytest.raises(ChapterError) as failed:
        execute_book(root, chapters(root), tmp_path / "out", lambda _: None)
    block = str(failed.value)
    assert "The only chapter (notebooks/only.ipynb), cell 3 of 3, failed" in block
    assert "card = 'h100'" in block
    assert "ValueError: no h100 in notebooks" in block
    assert not (tmp_path / "out").exists()


def test_a_kernel_that_dies_is_reported_at_its_cell(tmp_path: Path) -> None:
    root = a_book(tmp_path, "1 + 1", "import os\nos._exit(1)", "2 + 2")
    with pytest.raises(ChapterError, match=r"cell 3 of 4, failed(.|\n)*the kernel died"):
        execute_book(root, chapters(root), tmp_path / "out", lambda _: None)


def test_chapters_on_an_emulated_engine_say_so_at_their_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = a_book(tmp_path / "book", "from kilocard.launch import start\nstart().kind.value")
    with emulated(stand_in_case(EngineSpec(max_model_len=64))) as engines:
        monkeypatch.setenv("KILOCARD_ENGINE_URL", engines.url)
        said: list[str] = []
        execute_book(root, chapters(root), tmp_path / "out", said.append)
    assert any("LEFT OUT: real engines" in line for line in said)
    stored = nbformat.read(tmp_path / "out" / "notebooks" / "only.ipynb", as_version=4)
    assert "read *emulated*" in stored.cells[1].source
    assert stored.cells[2].outputs[0].data["text/plain"] == "'emulated'"


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_kernel_too(tmp_path: Path, sign: signal.Signals) -> None:
    mark = tmp_path / "kernel.pid"
    root = a_book(
        tmp_path / "book",
        f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)",
    )
    running = subprocess.Popen(
        [sys.executable, "-c", "from kilocard.cli import main; main()", "book", "execute"],
        cwd=root,
        stderr=subprocess.PIPE,
        text=True,
    )
    kernel = _when_written(mark)
    running.send_signal(sign)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "Traceback" not in said
    assert not psutil.pid_exists(kernel)


def test_a_kernel_sees_none_of_the_readers_start_up_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.delenv("KILOCARD_MEASURED", raising=False)
    built = kernel_environment(tmp_path, in_place=False)
    assert "MPLBACKEND" not in built
    assert Path(built["IPYTHONDIR"]).is_relative_to(tmp_path)
    assert Path(built["KILOCARD_MEASURED"]).is_relative_to(tmp_path / "_build")
    assert "KILOCARD_MEASURED" not in kernel_environment(tmp_path, in_place=True)
    assert os.environ["MPLBACKEND"] == "Agg"


def _when_written(path: Path) -> int:
    for _ in range(600):
        if path.is_file() and (text := path.read_text()):
            return int(text)
        time.sleep(0.05)
    raise AssertionError("the kernel never came up")
