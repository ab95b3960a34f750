"""Programs that go on when whoever started them ends: kept by a guard each, found again by its id and age."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kilocard.errors import KilocardError
from kilocard.launch.lease import Lease, claim, join
from kilocard.launch.ports import reserved_port
from kilocard.launch.share import guarded
from kilocard.launch.strays import sweep
from kilocard.processes import is_running, started_at

END_IT = "end the program that has it, or write another port into the file"


@dataclass(frozen=True, slots=True)
class Kept:
    """A kept program, told by its guard: a later process with the same id has another age."""

    pid: int
    age: str
    program_pid: int

    @property
    def is_alive(self) -> bool:
        """Whether it, or its guard that ends it, is still there."""
        return is_running(self.pid) and started_at(self.pid) == self.age

    def stop(self) -> None:
        """SIGTERM to the program; what is left of it after its time is killed."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """At once, with all that it started."""
        self._signal(signal.SIGKILL)
        sweep()

    def _signal(self, number: int) -> None:
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(frozen=True, slots=True)
class Program:
    """What is started: `environment` is the whole of it, and `stop_s` the time from SIGTERM to SIGKILL."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    log: Path
    stop_s: float
    cores: Sequence[int] = ()
    host: str = "127.0.0.1"
    port: int = 0
    """Where it listens, that nobody else may have; 0 for nowhere."""


def keep(name: str, program: Program, settings: str = "") -> Kept:
    """Start a program under a name that one guard of this user has at a time.

    One that runs under this name with these settings already is the one that is meant: whoever started it
    died before they could write it down. With others, it is ended, and this is an error.
    """
    address = _address_of(name)
    listener = claim(address)
    if listener is None:
        return _found(name, address, settings)
    orders = {
        "argv": list(program.argv),
        "environment": dict(program.environment),
        "info": {"drain_s": program.stop_s, "settings": settings, "port": program.port},
        "drain_s": program.stop_s,
        "cores": list(program.cores),
        "keeps": True,
        "end": str(_end_of(program.log)),
    }
    with listener, ExitStack() as stack:
        held = reserved_port(program.port, program.host, END_IT) if program.port else ()
        reserved = [stack.enter_context(it) for it in held]
        _put_aside(program.log)
        return _kept(guarded(orders, program.log, listener, reserved))


def kept_under(name: str) -> tuple[Kept, str, int] | None:
    """What runs under a name, with its settings and its port; None where nothing does."""
    held = join(_address_of(name))
    if held is None:
        return None
    return _kept(held), str(held.info.get("settings", "")), int(held.info.get("port", 0))


def before(log: Path) -> Path:
    """Where the log of the program before is kept."""
    return log.with_name(f"{log.name}.1")


def exit_code(log: Path) -> int | None:
    """How the last program with this log ended by itself, a signal as its negative number; None where it was
    told to end, or nobody noted it."""
    try:
        return int(_end_of(log).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _end_of(log: Path) -> Path:
    return log.with_name(f"{log.name}.end")


def _put_aside(log: Path) -> None:
    """What the program before left: its log under another name, and the note of its end no longer."""
    with contextlib.suppress(OSError):
        _end_of(log).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        if log.stat().st_size:
            log.replace(before(log))


def _address_of(name: str) -> str:
    return f"\0kilocard-{os.getuid()}-kept-{name}"


def _found(name: str, address: str, settings: str) -> Kept:
    held = join(address)
    if held is None:
        raise KilocardError(f"{name} is being stopped: wait until it has ended")
    is_meant = held.info.get("settings") == settings
    kept = _kept(held)
    if not is_meant:
        kept.stop()
        raise KilocardError(f"{name} runs already with other settings: it is being stopped first")
    return kept


def _kept(hold: Lease) -> Kept:
    pid = int(hold.info["pid"])
    kept = Kept(pid, started_at(pid), hold.pid)
    hold.close()
    return kept
