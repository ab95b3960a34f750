"""A peer of a benchmark in an environment of its own, made once and kept in Kilocard's cache folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kilocard.launch.model_files import cache_dir

INSTALL_S = 1200


class PeerMissingError(Exception):
    """A peer that cannot be installed or run here, and why, in one line."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A package by name and exact version."""

    package: str
    version: str

    def python(self) -> Path:
        """The interpreter of the peer's environment, installed at the first call."""
        folder = cache_dir() / "peers" / f"{self.package}-{self.version}"
        python, complete = folder / "bin" / "python", folder / "installed"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            print(f"installing {self.package} {self.version} ...", file=sys.stderr, flush=True)
            _run([sys.executable, "-m", "venv", str(folder)])
            _run([str(python), "-m", "pip", "install", "--quiet", f"{self.package}=={self.version}"])
            complete.touch()
        return python


def _run(command: list[str]) -> None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissingError(f"not installed: {type(error).__name__}") from error
    if ended.returncode:
        raise PeerMissingError(f"not installed: {last_line(ended.stderr)}")


def last_line(text: str) -> str:
    """What a failed command said last, without addresses and paths."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return re.sub(r"\S*(://|/)\S+", "…", lines[-1])[:300] if lines else "it said nothing"
