"""The tools that the book's own pages need, as the doctor looks for them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from kilocard.cli.check import Check, judged


def book_tools() -> Iterable[Check]:
    """A browser for its tests, and a font for its pictures."""
    tools: dict[str, tuple[Callable[[], bool], str]] = {
        "chromium": (lambda: _on_path("chromium", "chromium-browser", "google-chrome"), "browser tests"),
        "fonts-noto-cjk": (_has_cjk_font, "Chinese characters in pictures of pages"),
    }
    for package, (is_there, use) in tools.items():
        there = is_there()
        advice = f"left out: {use}; on Debian: apt-get install {package}"
        yield judged(package, there, "installed" if there else "missing", advice)


def _has_cjk_font() -> bool:
    folders = (Path("/usr/share/fonts/opentype/noto"), Path("/usr/share/fonts/truetype/noto"))
    if any(next(folder.glob("*CJK*"), None) for folder in folders if folder.is_dir()):
        return True
    try:
        answer = subprocess.run(
            ["fc-list", ":lang=zh"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return bool(answer.stdout.strip())


def _on_path(*names: str) -> bool:
    return any(map(shutil.which, names))
