"""One decorator for the loop's functions: machine code, or plain Python under `NUMBA_DISABLE_JIT=1`.

What was compiled is kept for the next process, in a folder named after the sources: numba looks at the file
of the function alone, so a change in one that it calls would go unseen.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba import njit, types
from numba.core.errors import NumbaError

from kilocard.engine_model.parts import EntryCompiler, PartCompiler, in_haste

P = ParamSpec("P")
T = TypeVar("T")

PICOSECONDS = 1_000_000_000_000
NEVER_PS = 2**62
"""Later than any event: the time of one that is not due."""

ROOMS = ("engine_model", "routing", "fleet", "cluster")


def sources_digest() -> str:
    """Of all that the loops are made of."""
    package = Path(__file__).parents[1]
    paths = sorted(path for room in ROOMS for path in (package / room).glob("*.py"))
    content = b"".join(path.read_bytes() for path in paths) + numba.__version__.encode()
    return hashlib.sha256(content).hexdigest()[:16]


def _own_folder() -> Path | None:
    """The folder of compiled code, unless the user named one."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return None
    place = os.environ.get("KILOCARD_CACHE") or os.path.expanduser("~/.cache/kilocard")  # noqa: PTH111
    return Path(place) / "compiled" / sources_digest()


if OWN_FOLDER := _own_folder():
    numba.config.CACHE_DIR = str(OWN_FOLDER)


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


def plain(part: Callable[P, T]) -> Callable[P, T]:
    """A part, with all that it calls, as Python wrote it: a part in machine code has no door for Python, and
    for a row of a table a call into machine code would take longer than the work."""
    return cast(Callable[P, T], _plain(part, {}))


def _plain(part: Any, known: dict[Any, Any]) -> Any:
    if isinstance(part, ModuleType) and part.__name__.startswith("kilocard."):
        return _plain_module(part, known)
    written = getattr(part, "py_func", None)
    if written is None:
        return part
    if part not in known:
        names = dict(written.__globals__)
        known[part] = FunctionType(written.__code__, names, written.__name__, written.__defaults__)
        for name in written.__code__.co_names:
            if name in names:
                names[name] = _plain(names[name], known)
    return known[part]


def _plain_module(module: ModuleType, known: dict[Any, Any]) -> Any:
    """A module whose parts are called by its name."""
    if module not in known:
        known[module] = SimpleNamespace(**vars(module))
        for name, part in vars(module).items():
            if hasattr(part, "py_func"):
                setattr(known[module], name, _plain(part, known))
    return known[module]


def compiled_entry(function: Callable[P, T], signature: Any) -> Callable[P, T]:
    """What Python calls: compiled now, with all its parts, and kept on disk for the next process."""
    if numba.config.DISABLE_JIT:
        return function
    return _kept(lambda kept: _entry(function, signature, kept))


def compiled_choice(function: Callable[P, T], signature: Any) -> Callable[P, T]:
    """What Python calls, and the loop by its address: compiled now, and kept unless another function made it.
    numba would keep such a one anew each time, and never know it again."""
    if getattr(function, "__closure__", None):
        return _choice(function, signature, kept=False)
    return _kept(lambda kept: _choice(function, signature, kept))


def _kept(compile: Callable[[bool], Callable[P, T]]) -> Callable[P, T]:
    """What was kept and cannot be read is thrown away; where nothing can be kept, each process compiles."""
    try:
        return compile(True)
    except NumbaError:
        raise
    except Exception:  # a damaged file raises whatever its bytes happen to mean
        if OWN_FOLDER:
            shutil.rmtree(OWN_FOLDER, ignore_errors=True)
        return compile(False)


def _choice(function: Callable[P, T], signature: Any, kept: bool) -> Callable[P, T]:
    with in_haste():
        ready: Callable[P, T] = njit(signature, cache=kept, error_model="numpy", _nrt=False)(function)
    return ready


def _entry(function: Callable[P, T], signature: Any, kept: bool) -> Callable[P, T]:
    with in_haste():
        entry: Callable[P, T] = njit(
            signature,
            cache=kept,
            error_model="numpy",
            _nrt=False,
            no_cfunc_wrapper=True,
            pipeline_class=EntryCompiler,
        )(function)
    return entry
