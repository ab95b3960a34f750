"""Build the site from prose and executed notebooks: strictly, in a folder of its own, then swapped in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.notebook.chapters import chapters

_BESIDE = ("_config.yml", "_toc.yml")
_LINKED = ("book", "data", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE")
_NOISE = re.compile(r"\x1b\[[0-9;]*m")


class SiteError(Exception):
    """The strict build found something: the message lists every warning and error."""


def build_site(root: Path, html: Path, notebooks: Path | None = None) -> Path:
    """Build the book at `root` into the folder `html` and return its index page.

    `notebooks` is the folder under which the executed chapters lie; without it, the stored outputs are
    shown. Every warning is an error; a site that stood in `html` stays until the new one is whole.
    """
    _require_ours(root, html)
    _sweep(html)
    work = html.parent / f".{html.name}-build-{os.getpid()}"
    try:
        return _build_in(work, root, html, notebooks or root)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _build_in(work: Path, root: Path, html: Path, notebooks: Path) -> Path:
    source = work / "source"
    _stage(root, source, notebooks)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", str(source)]
    answer = subprocess.run(
        [*command, "--path-output", str(work), "-W", "-n", "--keep-going"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    built = work / "_build" / "html"
    if answer.returncode or not (built / "index.html").is_file():
        raise SiteError(_complaints(answer.stdout, source))
    shutil.rmtree(html, ignore_errors=True)
    built.rename(html)
    return html / "index.html"


def _sweep(html: Path) -> None:
    """Remove what a build that was killed has left."""
    for left in html.parent.glob(f".{html.name}-build-*"):
        if not Path("/proc", left.name.rpartition("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)


def _require_ours(root: Path, html: Path) -> None:
    """The site takes the place of what stands in `html`: so that may be nothing, or an earlier site."""
    html, root = html.resolve(), root.resolve()
    if root.is_relative_to(html):
        raise KilocardError(f"--out {html} holds the checkout: name a new folder for the site")
    if html.exists() and not html.is_dir():
        raise KilocardError(f"--out {html} is a file: name a new folder for the site")
    ours = (html / ".buildinfo").is_file() and (html / "index.html").is_file()
    if html.is_dir() and any(html.iterdir()) and not ours:
        raise KilocardError(f"--out {html} holds files of others, for the site to replace: name a new folder")


def _stage(root: Path, source: Path, notebooks: Path) -> None:
    source.mkdir(parents=True)
    for name in _BESIDE:
        shutil.copy2(root / name, source / name)
    for name in _LINKED:
        if (root / name).exists():
            (source / name).symlink_to(root / name)
    for chapter in chapters(root):
        (source / chapter.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(notebooks / chapter.path, source / chapter.path)


def _complaints(log: str, source: Path) -> str:
    """The lines of Sphinx's log that say what is wrong, or its end where none does."""
    lines = _NOISE.sub("", log).replace(f"{source}/", "").splitlines()
    wrong = [line for line in lines if re.search(r"WARNING|ERROR|CRITICAL|Exception|Error:", line)]
    return "\n".join(wrong or lines[-30:])
