"""A fleet in the terminal: its slots, what each does, and what happened of late."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kilocard.cli.output import plain
from kilocard.cli.weights_read import weights_line

if TYPE_CHECKING:
    from kilocard.supervisor.state import State
    from kilocard.supervisor.supervisor import Supervisor

COLUMNS = ("slot", "phase", "for", "version", "in flight", "ms a token", "served", "deaths", "fault")
LEFT = ("slot", "phase", "version", "fault")
COLOURS = {
    "serving": "green",
    "starting": "yellow",
    "draining": "yellow",
    "stopping": "yellow",
    "given up": "red",
    "empty": "dim",
}
LINES = 8


class FleetView:
    """Shows a supervisor's fleet while it runs."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LINES)
        self._live = Live(auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        """One thing that was done."""
        self._lines.append(f"{time.strftime('%H:%M:%S')} {plain(line)}")

    def show(self, supervisor: Supervisor) -> None:
        """The fleet as it is now."""
        rows = fleet_rows(supervisor.state, supervisor.seen)
        state = "ready" if supervisor.is_ready else "ending" if supervisor.is_ending else "changing"
        title = f"{supervisor.spec.name}: {state}, {supervisor.url}/v1"
        reading = [weights_line(supervisor.reading)] if supervisor.reading else []
        told = Text("\n".join([*self._lines, *map(plain, reading)]), style="dim")
        self._live.update(Group(fleet_table(title, rows), told), refresh=True)


def fleet_rows(state: State, seen: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a slot; what the gateways see of it where they were asked."""
    now = time.monotonic()
    rows = []
    for name, held in state.held.items():
        slot, row = held.slot, seen.get(name, {})
        recipe = state.recipes.get(slot.runs)
        tpot_s = row.get("tpot_s")
        rows.append(
            {
                "slot": name,
                "pool": slot.pool.lstrip(":"),
                "phase": str(slot.phase),
                "for_s": round(max(0.0, now - slot.since_s), 1),
                "version": recipe.version if recipe else None,
                "settings": slot.runs or None,
                "is_outdated": bool(slot.wants and slot.runs) and slot.is_outdated,
                "port": held.port,
                "pid": held.kept.program_pid if held.kept else None,
                "in_flight": row.get("in_flight"),
                "tpot_s": tpot_s if tpot_s else None,
                "served": row.get("served"),
                "deaths": len(slot.deaths_s),
                "fault": held.fault or None,
            }
        )
    return rows


def fleet_table(title: str, rows: list[dict[str, Any]]) -> Table:
    """The rows as a person reads them."""
    table = Table(title=plain(title), title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in LEFT else "right")
    for row in rows:
        phase = Text(row["phase"] + (" (changes)" if row["is_outdated"] else ""))
        phase.stylize(COLOURS.get(row["phase"], ""))
        tpot = f"{1000 * row['tpot_s']:.1f}" if row["tpot_s"] else ""
        table.add_row(
            plain(row["slot"]),
            phase,
            f"{row['for_s']:.0f} s",
            plain(row["version"] or ""),
            _shown(row["in_flight"]),
            tpot,
            _shown(row["served"]),
            str(row["deaths"] or ""),
            plain(row["fault"] or ""),
        )
    return table


def _shown(value: object) -> str:
    return "" if value is None else str(value)
