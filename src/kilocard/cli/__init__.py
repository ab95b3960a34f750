"""The `kilocard` command: one module a group of commands, exit 2 and one line for bad input."""

import atexit
import contextlib
import gc
import importlib
import os
import sys

import typer
from typer.exceptions import Abort, Exit, TyperException

from kilocard.errors import KilocardError

COMMAND_MODULES = (
    "facts",
    "bounds",
    "engine",
    "bench",
    "layout",
    "simulate",
    "plan",
    "calibrate",
    "emulate",
    "gateway",
    "lint",
    "render",
    "up",
    "book",
    "doctor",
)
THE_MACHINES_FAULTS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    RecursionError,
    MemoryError,
)
"""What a full disk, a missing folder or a hostile value may raise where no command foresaw it."""

GARBAGE_OBJECTS = 100_000
"""New objects between two looks for garbage: a command imports and parses, which leaves none."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; never a traceback for what the user can mend (KILOCARD_TRACEBACK shows it)."""
    _open_missing_streams()
    if arguments is None:
        _tidy_little()
    _leave(_run(_app(sys.argv[1:] if arguments is None else arguments), arguments))


def _tidy_little() -> None:
    """Look for garbage seldom, and leave what is there to the end of the process."""
    gc.set_threshold(GARBAGE_OBJECTS)
    atexit.register(gc.freeze)


def _app(arguments: list[str]) -> typer.Typer:
    """With the command that is asked for, where a module has its name; else with all."""
    app = typer.Typer(
        name="kilocard",
        help="From one card to a thousand: facts, bounds, real engines, load, and what it all means.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_whole)  # else a command that stands alone loses its name
    for module in set(arguments[:1]) & set(COMMAND_MODULES) or COMMAND_MODULES:
        importlib.import_module(f"kilocard.cli.{module}").register(app)
    return app


def _whole() -> None:
    """All commands together have no options of their own."""


def _run(app: typer.Typer, arguments: list[str] | None) -> int:
    try:
        code = app(args=arguments, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (TyperException, KilocardError) as error:
        return _say(_message(error), 2)
    except Exit as stop:
        return int(stop.exit_code)
    except (KeyboardInterrupt, Abort):
        return _say("interrupted", 130)
    except BrokenPipeError:
        return 1
    except THE_MACHINES_FAULTS as error:
        if os.environ.get("KILOCARD_TRACEBACK"):
            raise
        return _say(f"{_cause(error)}; KILOCARD_TRACEBACK=1 shows where", 1)


def _say(line: str, code: int) -> int:
    with contextlib.suppress(OSError):
        print(f"kilocard: {' '.join(line.split())}", file=sys.stderr)
    return code


def _leave(code: int) -> None:
    """Exit without Python's own complaint about a stdout that cannot be flushed."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = code or 1
    sys.exit(code)


def _open_missing_streams() -> None:
    """A closed stdin, stdout or stderr is a way to say that nobody listens: no file may take its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin, sys.stdout, sys.stderr = (
        stream if stream is not None else os.fdopen(number, mode, closefd=False)
        for number, mode, stream in ((0, "r", sys.stdin), (1, "w", sys.stdout), (2, "w", sys.stderr))
    )


def _cause(error: BaseException) -> str:
    """One line on what the machine or a value did not allow."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, RecursionError):
        return "the input is nested too deeply"
    if isinstance(error, TypeError | LookupError) or not str(error):
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    return str(error)


def _message(error: Exception) -> str:
    if isinstance(error, KilocardError):
        return str(error)
    message = (error.format_message() if isinstance(error, TyperException) else str(error)).rstrip(".")
    given = _given(error.__cause__)
    return f"{message} (given: {given!r}); see --help" if given is not None else f"{message}; see --help"


def _given(cause: BaseException | None) -> object:
    """The value that the parser refused, which its own message leaves out."""
    details = getattr(cause, "errors", None)
    return details()[0].get("input") if callable(details) else None
