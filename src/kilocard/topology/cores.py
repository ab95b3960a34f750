"""Lists of cores as the kernel, numactl and vLLM write them: `0-3,8`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kilocard.errors import KilocardError

MOST_CORES = 65_536
"""More than any kernel is built for: a longer list is no list of cores."""


def parse_cores(text: str) -> tuple[int, ...]:
    """The cores of `0-3,8`, in order and each once; none for an empty text."""
    cores: set[int] = set()
    for part in filter(None, re.split(r"[,\s]+", text.strip())):
        if not (named := re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part, re.ASCII)):
            raise KilocardError(f"{part[:40]!r} is no core or range of cores: write them like 0-3,8")
        first, last = int(named[1]), int(named[2] or named[1])
        if first > last or last >= MOST_CORES:
            raise KilocardError(f"cores {part}: give ascending numbers below {MOST_CORES}")
        cores.update(range(first, last + 1))
    return tuple(sorted(cores))


def format_cores(cores: Iterable[int]) -> str:
    """The shortest list: `0-3,8`; a pair of neighbours is written `4,5`."""
    runs: list[list[int]] = []
    for core in sorted(set(cores)):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join(part for run in runs for part in _written(run))


def _written(run: list[int]) -> list[str]:
    return [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(core) for core in run]
