"""`kilocard up`, `down`, `roll` and `status`: a cluster file, run on this box."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kilocard.cli.facts import JsonOption
from kilocard.cli.output import console, plain, print_json
from kilocard.cli.weights_read import WeightsRead
from kilocard.errors import KilocardError

if TYPE_CHECKING:
    from kilocard.supervisor.supervisor import Supervisor

ClusterArgument = Annotated[Path, typer.Argument(help="The cluster file (YAML).")]
LOOK_S = 0.2


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("up")(up)
    app.command("down")(down)
    app.command("roll")(roll)
    app.command("status")(status)


def up(
    cluster: ClusterArgument,
    emulated: Annotated[bool, typer.Option("--emulated", help="Emulate the engines, on any box.")] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when all is ready; the rest goes on by itself.")
    ] = False,
    view: Annotated[bool, typer.Option(help="Show the fleet, in a terminal.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Run a cluster file on this box: start its engines and gateways, watch them, start anew what dies, roll
    out what changes in the file. Ctrl-C drains and ends everything; `kilocard down` does so from elsewhere.
    What runs is taken up again after a crash of this command."""
    from kilocard.supervisor.running import Running

    if detach:
        _detached(cluster, emulated, as_json)
        return
    shows = view and sys.stdout.isatty() and not as_json
    if shows:
        from kilocard.cli.fleet_view import FleetView

        with FleetView() as fleet:
            Running(cluster, is_emulated=emulated, say=fleet.say, show=fleet.show).run()
        return
    told = Told(as_json)
    Running(cluster, is_emulated=emulated, say=told.say, show=told.show).run()


def down(
    cluster: ClusterArgument,
    wait: Annotated[bool, typer.Option(help="Wait until nothing runs any more.")] = True,
) -> None:
    """Drain and end what `up` runs, by its supervisor, or in its place where that has died."""
    from kilocard.processes import is_running
    from kilocard.supervisor.control import order
    from kilocard.supervisor.ending import end_here
    from kilocard.supervisor.home import home_of_file
    from kilocard.supervisor.state import read_state

    home = home_of_file(cluster)
    if (pid := order(home, "down")) is None:
        end_here(cluster, home, lambda line: print(plain(line), flush=True))
        return
    while wait and is_running(pid):
        time.sleep(LOOK_S)
    if wait and (state := read_state(home.state)):
        left = [name for name, held in state.held.items() if held.kept and held.kept.is_alive]
        if left:
            raise KilocardError(f"{', '.join(left)} still run: see {home.folder / 'logs'}")


def roll(
    cluster: ClusterArgument,
    pool: Annotated[str | None, typer.Argument(help="A pool; default: all of them.")] = None,
) -> None:
    """Start every engine anew, batch by batch, under load."""
    from kilocard.supervisor.control import order
    from kilocard.supervisor.home import home_of_file
    from kilocard.supervisor.state import read_state

    home = home_of_file(cluster)
    state = read_state(home.state)
    names = [name for name in state.changes if name[0] != ":"] if state else []
    if state and pool is not None and pool not in names:
        raise KilocardError(f"no pool is called {pool}: use {', '.join(names)}")
    if order(home, "roll", pool=pool) is None:
        raise KilocardError(f"no supervisor runs {home.folder.name}: start it with `kilocard up {cluster}`")


def status(cluster: ClusterArgument, as_json: JsonOption = False) -> None:
    """Say what runs of a cluster file, as its supervisor wrote it down last."""
    from kilocard.cli.fleet_view import fleet_rows, fleet_table
    from kilocard.supervisor.home import home_of_file
    from kilocard.supervisor.state import read_state

    home = home_of_file(cluster)
    name, state = home.folder.name, read_state(home.state)
    rows = fleet_rows(state, {}) if state else []
    if as_json:
        print_json({"cluster": name, "is_ready": bool(state and state.is_ready), "slots": rows})
    elif not rows:
        print(f"{plain(name)}: nothing runs")
    else:
        console().print(fleet_table(name, rows))


class Told:
    """Lines instead of a view, and where clients ask once all is ready."""

    def __init__(self, as_json: bool) -> None:
        self._as_json, self._is_said = as_json, False
        self._weights = WeightsRead(sys.stderr)

    def say(self, line: str) -> None:
        """One thing that was done."""
        self._weights.make_room()
        print(plain(line), file=sys.stderr, flush=True)

    def show(self, supervisor: Supervisor) -> None:
        """How far weights are verified; once that all is ready."""
        self._weights.show(supervisor.reading)
        if self._is_said or not supervisor.is_ready:
            return
        self._is_said = True
        about: dict[str, Any] = {"url": supervisor.url, "models": list(supervisor.spec.models)}
        if self._as_json:
            print_json(about)
        else:
            print(f"ready: {about['url']}/v1 serves {', '.join(map(plain, about['models']))}", flush=True)


def _detached(cluster: Path, emulated: bool, as_json: bool) -> None:
    from kilocard.supervisor.detached import start_detached

    about = start_detached(
        cluster, is_emulated=emulated, say=lambda line: print(plain(line), file=sys.stderr, flush=True)
    )
    if as_json:
        print_json(about)
    else:
        print(f"ready: {about['url']}/v1; `kilocard down {plain(str(cluster))}` ends it")
