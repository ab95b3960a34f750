"""A policy of a user's own in a file, as a cluster file names it: `mine.py:fewest`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dis import get_instructions
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from kilocard.errors import KilocardError, near_match
from kilocard.routing.own import faults_of, name_of, plain_function
from kilocard.routing.replicas import Policy
from kilocard.specs.cluster.paths import OWN_POLICY


def policy_at(named: str) -> str | Policy:
    """The function that `PATH.py:NAME` names; any other name as it is. A file whose text is as before gives
    the same function, which need not be compiled again."""
    found = OWN_POLICY.fullmatch(named)
    if found is None:
        return named
    try:
        text = Path(found["path"]).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KilocardError(
            f"cannot read the policy {named}: {getattr(error, 'strerror', None) or 'it is no text'}; name "
            "a Python file and a function in it, like mine.py:fewest"
        ) from error
    return _function(text, found["path"], found["name"])


def written(policies: Sequence[Policy], path: Path) -> list[str]:
    """Put the functions of a notebook or a script into a file that a gateway can read, and say what each is
    called there. Modules that they use are imported; anything else has to stand in their own lines."""
    functions = [plain_function(policy) for policy in policies]
    names = [name_of(function) for function in functions]
    imports: dict[str, None] = {}
    for function in functions:
        for used, value in _from_outside(function).items():
            if inspect.ismodule(value):
                imports[f"import {value.__name__} as {used}"] = None
            elif used not in names:
                raise KilocardError(
                    f"the policy {name_of(function)} uses {used} from outside: a gateway reads its own lines "
                    "alone, so write the value there"
                )
    try:
        lines = [dedent(inspect.getsource(function)) for function in functions]
    except OSError as error:
        raise KilocardError(
            f"no lines of {', '.join(names)} are found: define it in a cell or a file"
        ) from error
    path.write_text("\n\n".join(["\n".join(imports), *lines]), encoding="utf-8")
    return [f"{path}:{name}" for name in names]


def _from_outside(function: Callable[..., Any]) -> dict[str, Any]:
    """What a function uses that neither its own lines nor Python itself define."""
    code = function.__code__
    used = dict.fromkeys(it.argval for it in get_instructions(code) if it.opname == "LOAD_GLOBAL")
    known = {it: function.__globals__[it] for it in used if it in function.__globals__}
    return dict.fromkeys(code.co_freevars) | known


@cache
def _function(text: str, path: str, name: str) -> Policy:
    content: dict[str, object] = {"__name__": "own_policy", "__file__": path}
    with faults_of(Path(path).name):
        exec(compile(text, path, "exec"), content)
    if name not in content:
        defined = [it for it, value in content.items() if inspect.isfunction(value)]
        raise KilocardError(f"{path} has no policy {name!r}: {near_match(name, defined)}")
    return plain_function(content[name])
