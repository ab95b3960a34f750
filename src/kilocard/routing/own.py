"""A policy of a user's own: what it has to be, and how its faults are told, compiled or not."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from kilocard.engine_model.parts import in_haste
from kilocard.errors import KilocardError
from kilocard.routing.replicas import Arrival, Policy, Replicas

WANTED = "return the number of a replica, or -1 where none may take it"
PLACES = "columns of `replicas` have the places 0 to len(replicas.active) - 1"
MOST_TOLD = 160
"""Characters of a compiler's own complaint."""


def plain_function(policy: Any) -> Callable[..., Any]:
    """The policy as Python wrote it, or a refusal of what is no function of the three arguments."""
    function = getattr(policy, "py_func", policy)
    if not inspect.isfunction(function):
        raise KilocardError(
            f"{policy!r:.60} is no policy: give a function made by def, of (replicas, arrival, random)"
        )
    code = function.__code__
    variadic = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if code.co_argcount != 3 or code.co_kwonlyargcount or variadic:
        raise KilocardError(
            f"the policy {name_of(policy)}{inspect.signature(function)} takes other arguments than a policy "
            "is given: make it a function of (replicas, arrival, random)"
        )
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise KilocardError(f"the policy {name_of(policy)} yields or awaits: {WANTED}")
    return function


def compile_own(policy: Callable[..., Any], signature: Any) -> Policy:
    """The policy in machine code that looks at the bounds of its columns and may make arrays: a few per cent
    slower than one that does not."""
    try:
        with in_haste():
            checked = njit(signature.args, error_model="numpy", boundscheck=True)(policy)
            returned = types.unliteral(checked.nopython_signatures[0].return_type)
            if isinstance(returned, types.Integer) and returned != signature.return_type:
                checked = njit(signature, error_model="numpy", boundscheck=True)(policy)
    except Exception as error:
        raise KilocardError(
            f"the policy {name_of(policy)} cannot be compiled ({_reason(error)}): use numbers, loops and "
            "columns of `replicas`"
        ) from error
    if not isinstance(returned, types.Integer):
        raise _no_number(policy, _compiled_kind(returned))
    compiled: Policy = checked
    return compiled


def watched(policy: Callable[..., Any]) -> Policy:
    """The policy in plain Python, held to what machine code is held to."""

    @wraps(policy)
    def asked(replicas: Replicas, arrival: Arrival, random: NDArray[np.int64]) -> int:
        with faults_of(policy):
            named = policy(replicas, arrival, random)
        if isinstance(named, bool) or not isinstance(named, int | np.integer):
            raise _no_number(policy, _plain_kind(named))
        return int(named)

    return asked


@contextmanager
def faults_of(policy: Any) -> Iterator[None]:
    """What a policy raises is told in one line that names the policy."""
    try:
        yield
    except KilocardError:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        told = " ".join(str(error).split())[:MOST_TOLD]
        raise KilocardError(
            f"the policy {name_of(policy)} fails with {type(error).__name__} ({told}): "
            + (PLACES if isinstance(error, IndexError) else WANTED)
        ) from error


def name_of(policy: Any) -> str:
    """What a message calls a policy."""
    return str(getattr(policy, "__name__", policy))


def _no_number(policy: Any, kind: str) -> KilocardError:
    return KilocardError(f"the policy {name_of(policy)} returns {kind}, no whole number: {WANTED}")


def _compiled_kind(returned: Any) -> str:
    if isinstance(returned, types.Float):
        return "a float"
    if isinstance(returned, types.Boolean):
        return "a bool"
    return "None" if isinstance(returned, types.NoneType | types.Optional) else f"{returned!s:.60}"


def _plain_kind(named: object) -> str:
    if isinstance(named, float | np.floating):
        return "a float"
    if isinstance(named, bool | np.bool_):
        return "a bool"
    return "None" if named is None else f"{type(named).__name__:.60}"


def _reason(error: Exception) -> str:
    """What the compiler minds, and in which line: its messages open with the stage that failed."""
    text = str(error)
    lines = [line.strip(" -") for line in text.splitlines()]
    rejected = [
        later
        for line, later in pairwise(lines)
        if line.startswith("Rejected as the implementation raised a specific error")
    ]
    told = [line for line in lines if line and not line.startswith(("Failed in nopython", "Resolution fail"))]
    reason = next(iter([*rejected, *told]), type(error).__name__)
    reason = re.sub(r" of type (\w+)\(.*", r" of \1", reason.partition(" Raised from")[0])
    where = re.search(r", line (\d+)|\((\d+)\)", text)
    line = f", in line {where.group(1) or where.group(2)}" if where and "line" not in reason else ""
    return reason[:MOST_TOLD] + line
