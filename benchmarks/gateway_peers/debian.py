"""A program of Debian's in a folder of its own, unpacked without being installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from peer_environment import PeerMissingError, last_line

from kilocard.launch.model_files import cache_dir

FETCH_S = 300


@dataclass(frozen=True, slots=True)
class DebianPeer:
    """A program, and the packages that hold it and the libraries that a bare system lacks."""

    program: str
    packages: tuple[str, ...]

    def path(self) -> Path:
        """The program, fetched at the first call."""
        folder = cache_dir() / "peers" / f"debian-{self.program}"
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self._fetch(folder)
            (folder / "installed").touch()
        return folder / "usr" / "sbin" / self.program

    def environment(self) -> dict[str, str]:
        """Where its libraries lie."""
        folders = self.path().parents[1].glob("lib/*-linux-gnu")
        return {"LD_LIBRARY_PATH": ":".join(map(str, folders))}

    def version(self) -> str:
        """As it says itself."""
        command = [str(self.path()), "-v"]
        ended = subprocess.run(
            command, env={**os.environ, **self.environment()}, capture_output=True, text=True, check=False
        )
        found = re.search(r"\d+\.\d+\.\d+", ended.stdout + ended.stderr)
        if found is None:
            raise PeerMissingError(f"does not run: {last_line(ended.stderr)}")
        return found[0]

    def _fetch(self, folder: Path) -> None:
        if shutil.which("apt-get") is None:
            raise PeerMissingError("not installed: there is no apt-get here")
        _run(["apt-get", "download", *self.packages], folder)
        for package in folder.glob("*.deb"):
            _run(["dpkg", "-x", package.name, "."], folder)
            package.unlink()


def _run(command: list[str], folder: Path) -> None:
    try:
        ended = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=FETCH_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissingError(f"not installed: {type(error).__name__}") from error
    if ended.returncode:
        raise PeerMissingError(f"not installed: {last_line(ended.stderr)}")
