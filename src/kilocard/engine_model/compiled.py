"""One decorator for the loop's functions: machine code, or plain Python under `NUMBA_DISABLE_JIT=1`.

What was compiled is kept for the next process, in a folder named after the sources: numba looks at the file
of the function alone, so a change in one that it calls would go unseen.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba import njit, types

from kilocard.engine_model.parts import EntryCompiler, PartCompiler, in_haste

P = ParamSpec("P")
T = TypeVar("T")

PICOSECONDS = 1_000_000_000_000
NEVER_PS = 2**62
"""Later than any event: the time of one that is not due."""

ROOMS = ("engine_model", "routing", "fleet")


def _sources_digest() -> str:
    package = Path(__file__).parents[1]
    paths = sorted(path for room in ROOMS for path in (package / room).glob("*.py"))
    content = b"".join(path.read_bytes() for path in paths) + numba.__version__.encode()
    return hashlib.sha256(content).hexdigest()[:16]


def _keep_compiled() -> None:
    """Name the folder of compiled code, unless the user named one."""
    place = os.environ.get("KILOCARD_CACHE") or os.path.expanduser("~/.cache/kilocard")  # noqa: PTH111
    if not os.environ.get("NUMBA_CACHE_DIR"):
        numba.config.CACHE_DIR = str(Path(place) / "compiled" / _sources_digest())


_keep_compiled()


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Part of the loop: compiled when the loop is, without reference counts, since it makes no array."""
    if numba.config.DISABLE_JIT:
        return function
    part: Any = njit(
        error_model="numpy",
        _nrt=False,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        pipeline_class=PartCompiler,
    )(function)
    template = part.get_call_template
    part.get_call_template = lambda args, kws: template([types.unliteral(arg) for arg in args], kws)
    return cast(Callable[P, T], part)


def compiled_entry(function: Callable[P, T], signature: Any) -> Callable[P, T]:
    """What Python calls: compiled now, with all its parts, and kept on disk for the next process."""
    if numba.config.DISABLE_JIT:
        return function
    with in_haste():
        entry: Callable[P, T] = njit(
            signature,
            cache=True,
            error_model="numpy",
            _nrt=False,
            no_cfunc_wrapper=True,
            pipeline_class=EntryCompiler,
        )(function)
    return entry
