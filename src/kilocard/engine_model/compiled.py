"""One decorator for the loop's functions: machine code by default, plain Python under `NUMBA_DISABLE_JIT=1`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
T = TypeVar("T")

PICOSECONDS = 1_000_000_000_000
NEVER_PS = 2**62
"""Later than any event: the time of one that is not due."""


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile on the first call and keep the result beside the source for the next process."""
    kept: Callable[P, T] = njit(cache=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return kept
