"""Whether weights are whole: every file that their sums name is read once, and again only when it changed."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.specs.cluster import ModelWeights

LINE = re.compile(r"(?P<sum>[0-9a-f]{64}) [ *](?P<name>.+)")
MOST_LINES = 10_000
PIECE_BYTES = 2**20


def verify(weights: ModelWeights) -> None:
    """An error that names the first file that is missing or not what its sum says."""
    if not weights.checksums or not weights.path:
        return
    folder = Path(weights.path).expanduser()
    sums = folder / weights.checksums
    if weights.sha256 and (found := _sum(sums)) != weights.sha256:
        raise KilocardError(
            f"{sums} has the sum {found[:12]}…, and weights.sha256 is {weights.sha256[:12]}…: these are "
            "other "
            "weights than the file means"
        )
    for name, wanted in _read(sums).items():
        if (found := _sum(_inside(folder, name, sums))) != wanted:
            raise KilocardError(
                f"{folder / name} is damaged or another: its sum is {found[:12]}…, {sums.name} says "
                f"{wanted[:12]}…; copy it anew"
            )


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


def _sum(path: Path) -> str:
    try:
        about = path.stat()
    except OSError as error:
        raise KilocardError(f"{path} cannot be read ({error.strerror}): the weights are not whole") from error
    return _sum_of(str(path), about.st_size, about.st_mtime_ns, about.st_ino)


@lru_cache(maxsize=10_000)
def _sum_of(path: str, *_about: int) -> str:
    summed = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                summed.update(piece)
    except OSError as error:
        raise KilocardError(f"{path} cannot be read ({error.strerror}): the weights are not whole") from error
    return summed.hexdigest()
