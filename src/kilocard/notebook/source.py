"""The package's own code as a chapter's explanation: shown from where it runs, never copied."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from IPython.display import Markdown, display

from kilocard.errors import KilocardError


def show_source(function: Callable[..., Any], *, since: str = "", until: str = "") -> None:
    """Show a function's source and file, from a line that holds `since` to one with `until`."""
    plain = getattr(function, "py_func", function)
    lines = inspect.getsource(plain).splitlines()
    first = _line_with(lines, since, 0)
    last = _line_with(lines, until, first) if until else len(lines) - 1
    shown = textwrap.dedent("\n".join(lines[first : last + 1]))
    where = plain.__module__.replace(".", "/") + ".py"
    display(Markdown(f"`{where}`, `{plain.__name__}`:\n\n```python\n{shown}\n```"))


def _line_with(lines: list[str], text: str, first: int) -> int:
    found = next((at for at in range(first, len(lines)) if text in lines[at]), None)
    if found is None:
        raise KilocardError(f"no line holds {text!r} from line {first + 1} on: read the function anew")
    return found
