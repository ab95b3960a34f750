"""What a supervisor knows, written whole after each change, so that the next one takes up where it ended."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kilocard.errors import KilocardError
from kilocard.launch.keep import Kept
from kilocard.lifecycle import Change, Phase, Slot, Stage
from kilocard.specs.text_file import write_whole
from kilocard.supervisor.recipe import Recipe

FORM = 2


@dataclass(slots=True)
class Held:
    """A slot and the program in it."""

    slot: Slot
    port: int
    kept: Kept | None = None
    successes: int = 0
    """Good answers in a row since it was started."""
    misses: int = 0
    """Looks in a row at which it gave no sign, while it serves."""
    fault: str = ""
    """Why its last program ended, or could not be started; "" once one serves."""


@dataclass(slots=True)
class State:
    """`boot` tells one run of the machine from the next: programs and clocks do not outlive it."""

    boot: str
    file: str
    held: dict[str, Held] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)
    recipes: dict[str, Recipe] = field(default_factory=dict)
    is_ready: bool = False
    """Whether everything serves, and the gateways send to it."""

    def of_pool(self, pool: str) -> list[Held]:
        """In the order of their numbers."""
        return [held for held in self.held.values() if held.slot.pool == pool]

    def put(self, slots: Iterable[Slot]) -> None:
        """Slots as they are now, each in its place."""
        for slot in slots:
            self.held[slot.name].slot = slot

    def forget_recipes(self) -> None:
        """Those that nothing runs or wants any more."""
        used = {held.slot.wants for held in self.held.values()} | {
            held.slot.runs for held in self.held.values()
        }
        for change in self.changes.values():
            used |= {change.target, change.candidate}
        self.recipes = {digest: recipe for digest, recipe in self.recipes.items() if digest in used}


def boot_id() -> str:
    """Of this run of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def write_state(path: Path, state: State) -> None:
    """Beside, then in its place: whoever reads it finds the old one or the new one, whole."""
    told = {
        "form": FORM,
        "boot": state.boot,
        "file": state.file,
        "held": {name: asdict(held) for name, held in state.held.items()},
        "changes": {name: asdict(change) for name, change in state.changes.items()},
        "is_ready": state.is_ready,
        "recipes": {digest: it.model_dump(mode="json") for digest, it in state.recipes.items()},
    }
    write_whole(path, json.dumps(told, indent=1) + "\n")


def read_state(path: Path) -> State | None:
    """What was written, None where nothing was; KilocardError where it cannot be read."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        if told["form"] != FORM:
            raise ValueError(f"its form is {told['form']}, not {FORM}")
        return State(
            told["boot"],
            told["file"],
            {name: _held(row) for name, row in told["held"].items()},
            {name: _change(row) for name, row in told["changes"].items()},
            {digest: Recipe.model_validate(row) for digest, row in told["recipes"].items()},
            told["is_ready"],
        )
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError) as error:
        raise _unreadable(path, error) from error


def _held(row: dict[str, Any]) -> Held:
    slot = {
        **row["slot"],
        "phase": Phase(row["slot"]["phase"]),
        "deaths_s": tuple(row["slot"]["deaths_s"]),
    }
    kept = Kept(**row["kept"]) if row["kept"] else None
    return Held(Slot(**slot), row["port"], kept, row["successes"], row["misses"], row["fault"])


def _change(row: dict[str, Any]) -> Change:
    return Change(**{**row, "stage": Stage(row["stage"]), "refused": tuple(row["refused"])})


def _unreadable(path: Path, error: Exception) -> KilocardError:
    return KilocardError(
        f"the state {path} cannot be read ({error}): `kilocard up` sets it aside, and finds what runs by name"
    )
