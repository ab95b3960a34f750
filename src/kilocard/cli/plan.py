"""`kilocard plan`: from a target to a report, a cluster file, and places in the building."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kilocard.cli.facts import FactsOption, JsonOption, use_facts
from kilocard.cli.output import plain, print_json, print_pairs


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)


def plan(
    target: Annotated[Path, typer.Argument(metavar="TARGET.yaml", help="What is to be served, and on what.")],
    baseline: Annotated[
        Path | None,
        typer.Option(help="A sweep of one replica: a run of `kilocard bench`, or a published table (.csv)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of the report and the cluster file.")] = Path("plan"),
    facts_path: FactsOption = "",
    as_json: JsonOption = False,
) -> None:
    """Plan a cluster: the cheapest way that meets the target in simulation, as a report to read and files to
    render; exact about what is simulated, derived, published, or yours to say."""
    use_facts(facts_path)
    from kilocard.planning.baseline import read_baseline
    from kilocard.planning.files import numbers_of, write_plan
    from kilocard.planning.plan import make_plan
    from kilocard.planning.report import sections_of
    from kilocard.specs.target import read_target

    wanted = read_target(target)
    seen = read_baseline(baseline) if baseline else None
    with _progress() as progress:
        made = make_plan(wanted, seen, out, progress)
    written = write_plan(made, out)
    if as_json:
        print_json(numbers_of(made))
        return
    answer = sections_of(made)[0].text
    print_pairs(answer[0], [], [*answer[1:], *(plain(str(path)) for path in written)])


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on a terminal; nothing anywhere else."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)
