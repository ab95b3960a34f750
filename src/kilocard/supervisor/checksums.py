"""Whether weights are whole: every file that their sums name is read once, and again only when it changed."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.specs.cluster import ModelWeights

LINE = re.compile(r"(?P<sum>[0-9a-f]{64}) [ *](?P<name>.+)")
MOST_LINES = 10_000
PIECE_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Reading:
    """Whose weights are read, and how far it is."""

    model: str
    done_bytes: int
    total_bytes: int


class Verifier:
    """One reading at a time: engines of the same weights wait for it together."""

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self._lock = threading.Lock()
        self._is_stopped = False
        self._known: dict[tuple[str, int, int, int], str] = {}

    def stop(self) -> None:
        """Read no further: nobody waits for it any more."""
        self._is_stopped = True

    def verify(self, model: str, weights: ModelWeights) -> None:
        """An error that names the first file that is missing or not what its sum says."""
        if not weights.checksums or not weights.path:
            return
        folder = Path(weights.path).expanduser()
        sums = folder / weights.checksums
        with self._lock:
            try:
                self._verify(model, folder, sums, weights.sha256 or "")
            finally:
                self.reading = None

    def _verify(self, model: str, folder: Path, sums: Path, meant: str) -> None:
        if meant and (found := self._sum(sums)) != meant:
            raise KilocardError(
                f"{sums} has the sum {found[:12]}…, and weights.sha256 is {meant[:12]}…: these are other "
                "weights than the file means"
            )
        wanted = {_inside(folder, name, sums): told for name, told in _read(sums).items()}
        if total := self._unread_bytes(wanted):
            self.reading = Reading(model, 0, total)
        for place, told in wanted.items():
            if (found := self._sum(place)) != told:
                raise KilocardError(
                    f"{place} is damaged or another: its sum is {found[:12]}…, {sums.name} says "
                    f"{told[:12]}…; copy it anew"
                )

    def _unread_bytes(self, places: Iterable[Path]) -> int:
        return sum(about[1] for about in map(_about, places) if about not in self._known)

    def _sum(self, path: Path) -> str:
        about = _about(path)
        if about not in self._known:
            summed = hashlib.sha256()
            try:
                with path.open("rb") as file:
                    while piece := file.read(PIECE_BYTES):
                        summed.update(piece)
                        self._has_read(len(piece))
            except OSError as error:
                raise _unreadable(path, error) from error
            self._known[about] = summed.hexdigest()
        return self._known[about]

    def _has_read(self, size: int) -> None:
        if self._is_stopped:
            raise KilocardError("it was told to end before the weights were verified")
        if self.reading is not None:
            self.reading = replace(self.reading, done_bytes=self.reading.done_bytes + size)


def _read(sums: Path) -> dict[str, str]:
    try:
        lines = sums.read_text(encoding="utf-8").splitlines()[: MOST_LINES + 1]
    except (OSError, UnicodeDecodeError) as error:
        raise KilocardError(f"the sums {sums} cannot be read ({error}): make them with sha256sum") from error
    told = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if (found := LINE.fullmatch(line)) is None:
            raise KilocardError(f"{sums}, line {number}: it is no line of sha256sum")
        told[found["name"].removeprefix("./")] = found["sum"]
    if not told:
        raise KilocardError(f"{sums} names no file: make it with `sha256sum * > {sums.name}`")
    return told


def _inside(folder: Path, name: str, sums: Path) -> Path:
    place = folder / name
    if ".." in Path(name).parts or Path(name).is_absolute():
        raise KilocardError(
            f"{sums} names {name}, which is not in {folder}: sums are of the weights' own files"
        )
    return place


def _about(path: Path) -> tuple[str, int, int, int]:
    """What tells a file from what it was."""
    try:
        about = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return str(path), about.st_size, about.st_mtime_ns, about.st_ino


def _unreadable(path: Path, error: OSError) -> KilocardError:
    return KilocardError(f"{path} cannot be read ({error.strerror}): the weights are not whole")
