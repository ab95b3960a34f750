"""The `kilocard` command: one module a group of commands, exit 2 and one line for bad input."""

import importlib
import os
import sys

import typer
from click.exceptions import ClickException, Exit

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


def _register_commands() -> None:
    for module in COMMAND_MODULES:
        importlib.import_module(f"kilocard.cli.{module}").register(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; never a traceback for what the user can mend."""
    _register_commands()
    try:
        code = app(args=arguments, standalone_mode=False)
    except (ClickException, KilocardError) as error:
        message = error.format_message() if isinstance(error, ClickException) else str(error)
        print(f"kilocard: {' '.join(message.split())}", file=sys.stderr)
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
