"""A collective measured between processes of this box."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import numpy as np

from kilocard import __version__
from kilocard.box import describe_box
from kilocard.collectives.group import Group
from kilocard.collectives.measured import Measured, SizeTime
from kilocard.collectives.work import (
    SIZES_BYTES,
    Operation,
    Work,
    checked_ranks,
    checked_seconds,
    checked_sizes,
)
from kilocard.errors import KilocardError
from kilocard.record import Kind, Stamp

BUDGET_S = 4.0
LIMIT_S = 90.0
LEAST_LIMIT_S = 0.01


def measure(
    ranks: int = 2,
    sizes_bytes: Iterable[int] = SIZES_BYTES,
    *,
    operation: Operation | str = Operation.ALLREDUCE,
    pin: bool = False,
    budget_s: float = BUDGET_S,
    limit_s: float = LIMIT_S,
) -> Measured:
    """Times of a collective over torch.distributed's gloo, on loopback, of 4-byte numbers.

    A rank is a process whose one thread computes; gloo listens in another. With `pin` both stay on one core,
    a rank each, and wait for each other's slices of time: messages of about 1 MiB then take several times as
    long. The ranks measure for about `budget_s`, and end with this process, with the first of them that
    fails, or after `limit_s`. Raises KilocardError where torch is missing, a size or
    a number of ranks is none, a rank dies, or they do not come to an end.
    """
    sizes = checked_sizes(sizes_bytes, checked_ranks(ranks))
    work = Work(_known(operation), ranks, sizes, checked_seconds("budget_s", budget_s))
    limit_s = checked_seconds("limit_s", limit_s, LEAST_LIMIT_S)
    _check_torch()
    cores = _cores_for(ranks) if pin else []
    start_s = time.monotonic()
    with Group(work, cores, limit_s) as group:
        said = [json.loads(line) for line in group.ended()]
    return Measured(
        operation=Operation(work.operation),
        ranks=ranks,
        times=tuple(_time_of(size, said) for size in work.sizes_bytes),
        copy_bytes_per_s=work.copy_bytes / float(np.median([rank["copies_s"] for rank in said])),
        pinned=pin,
        took_s=time.monotonic() - start_s,
        stamp=_stamp(work, said[0]["torch"]),
    )


def _time_of(size_bytes: int, said: Sequence[dict[str, Any]]) -> SizeTime:
    """From the last rank's call to the last rank's return, repetition by repetition."""
    began = np.max([rank["began_s"][str(size_bytes)] for rank in said], axis=0)
    ended = np.max([rank["ended_s"][str(size_bytes)] for rank in said], axis=0)
    p25, median, p75 = np.percentile(ended - began, [25, 50, 75]).tolist()
    return SizeTime(size_bytes, median, len(began), p25, p75)


def _cores_for(ranks: int) -> list[int]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < ranks:
        raise KilocardError(f"{ranks} ranks cannot have one of {len(cores)} cores each: leave pin out")
    return cores


def _known(operation: Operation | str) -> Operation:
    with contextlib.suppress(ValueError):
        return Operation(operation)
    raise KilocardError(f"no collective {operation!r}: known: {', '.join(Operation)}")


def _check_torch() -> None:
    if find_spec("torch") is None:
        raise KilocardError(
            "torch is not installed here, and the processes meet through torch.distributed: "
            "install it (make), or read the book's record of another box"
        )


def _stamp(work: Work, torch_version: str) -> Stamp:
    return Stamp(
        kind=Kind.MEASURED,
        model="none",
        engine="gloo of torch",
        engine_version=torch_version.partition("+")[0],
        card="cpu",
        box=describe_box(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        layout=f"{work.ranks} ranks",
        settings=asdict(work),
        kilocard_version=__version__,
    )
