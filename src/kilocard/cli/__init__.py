"""The `kilocard` command: one module a group of commands, exit 2 and one line for bad input."""

import importlib
import os
import sys

import typer
from typer.exceptions import Exit, TyperException

from kilocard.errors import KilocardError

COMMAND_MODULES = ("facts", "bounds", "engine", "bench", "book", "doctor")

app = typer.Typer(
    name="kilocard",
    help="From one card to a thousand: facts, bounds, real engines, load, and what it all means.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; never a traceback for what the user can mend."""
    for module in COMMAND_MODULES:
        importlib.import_module(f"kilocard.cli.{module}").register(app)
    try:
        code = app(args=arguments, standalone_mode=False)
        sys.stdout.flush()
    except (TyperException, KilocardError) as error:
        print(f"kilocard: {' '.join(_message(error).split())}", file=sys.stderr)
        sys.exit(2)
    except Exit as stop:
        sys.exit(stop.exit_code)
    except KeyboardInterrupt:
        print("kilocard: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


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
