"""From a cluster file to a supervisor at work: what runs already is taken up, orders are taken, the file is
read again when it changes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kilocard.errors import KilocardError
from kilocard.gateway.keys import read_key
from kilocard.launch.command import NoBuildError, find_build
from kilocard.specs.cluster import ClusterSpec, Secret, read_cluster
from kilocard.specs.text_file import write_whole
from kilocard.supervisor.control import Control
from kilocard.supervisor.home import Home, home_of
from kilocard.supervisor.lost import lost
from kilocard.supervisor.starting import Starter
from kilocard.supervisor.state import State, boot_id, read_state
from kilocard.supervisor.supervisor import LOOK_S, Supervisor

ADMIN_KEY = "KILOCARD_ADMIN_KEY"
"""The variable with a key for the gateways' orders, where gateway.admin.keys asks for one."""
Say = Callable[[str], None]
Show = Callable[[Supervisor], None]


class Running:
    """One `kilocard up`. `show` is called after each look."""

    def __init__(self, path: Path, *, is_emulated: bool, say: Say, show: Show) -> None:
        self.path = path
        self._say, self._show = say, show
        self.spec = read_cluster(path)
        require_ours(self.spec)
        if not is_emulated:
            _require_build()
        self.home = home_of(self.spec.name)
        self._is_emulated = is_emulated
        self._seen = _stamp(path)
        self._signals: list[int] = []

    def run(self) -> None:
        """Until it is told to end and nothing runs any more."""
        with self.home.locked():
            state = taken_up(self.home, self.path, self._say)
            starter = starter_of(self.spec, self.home, is_emulated=self._is_emulated)
            supervisor = Supervisor(self.spec, state, self.home, starter, self._say)
            if any(held.kept and held.kept.is_alive for held in state.held.values()):
                supervisor.note("taken up")
            starter.prepare(self.spec, self._say)
            remember(self.path, self.home)
            control = Control(self.home)
            self._listen_to_signals()
            try:
                while not supervisor.is_over:
                    began = time.monotonic()
                    self._take_orders(control, supervisor)
                    self._read_again(supervisor)
                    supervisor.tick(time.monotonic())
                    self._show(supervisor)
                    time.sleep(max(0.0, LOOK_S - (time.monotonic() - began)))
                self.home.state.unlink(missing_ok=True)
            finally:
                control.close()
                supervisor.close()

    def _listen_to_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda given, _: self._signals.append(given))

    def _take_orders(self, control: Control, supervisor: Supervisor) -> None:
        if self._signals and not supervisor.is_ending:
            supervisor.end()
        while not control.orders.empty():
            _carry_out(control.orders.get(), supervisor)

    def _read_again(self, supervisor: Supervisor) -> None:
        if (stamp := _stamp(self.path)) == self._seen:
            return
        self._seen = stamp
        try:
            spec = read_cluster(self.path)
            require_ours(spec)
            if spec.name != self.spec.name:
                raise KilocardError(
                    f"{self.path}: name is {spec.name}, and {self.spec.name} runs: end that one first"
                )
        except KilocardError as error:
            self._say(f"the file was not taken up: {error}")
            return
        self.spec = spec
        remember(self.path, self.home)
        supervisor.adopt(spec)


def starter_of(spec: ClusterSpec, home: Home, *, is_emulated: bool) -> Starter:
    """With the keys that engines and gateways ask of this supervisor."""
    key = spec.gateway.engine_key
    admin_key = read_key(Secret(variable=ADMIN_KEY)) if os.environ.get(ADMIN_KEY) else ""
    return Starter(home, is_emulated, read_key(key) if key else "", admin_key)


def remember(path: Path, home: Home) -> None:
    """The file as it is, to end by where it cannot be read later on."""
    with suppress(KilocardError, OSError, UnicodeDecodeError):
        write_whole(home.known_file, path.read_text(encoding="utf-8"))


def taken_up(home: Home, path: Path, say: Say) -> State:
    """What the last supervisor left, be it without a word; nothing where the machine was started since."""
    state = _last_state(home, say)
    if state is None or state.boot != boot_id():
        state = State(boot_id(), str(path.resolve()))
    state.file, state.is_ready = str(path.resolve()), False
    for held in lost(home, set(state.held), time.monotonic()):
        say(f"{held.slot.name} was found: it runs, and no state told of it")
        state.held[held.slot.name] = held
    for held in state.held.values():
        held.misses = 0
    for pool, change in state.changes.items():  # what the last one read of a canary is gone with it
        state.changes[pool] = replace(change, judged_since_s=None)
    return state


def _last_state(home: Home, say: Say) -> State | None:
    try:
        return read_state(home.state)
    except KilocardError as error:
        aside = home.state.with_name("state.bad.json")
        home.state.replace(aside)
        say(f"{error}; it is {aside} now")
        return None


def require_ours(spec: ClusterSpec) -> None:
    """An error where there is nothing to start."""
    if not any(pool.count for pool in spec.pools):
        raise KilocardError(
            f"{spec.name}: every pool lists engines that somebody else runs: write a number under replicas "
            "for those that are to be started here, or use `kilocard gateway`"
        )
    if any(pool.discovery for pool in spec.pools):
        raise KilocardError(
            f"{spec.name}: replicas that are found by a name are Kubernetes': `kilocard render` it"
        )


def _carry_out(order: dict[str, Any], supervisor: Supervisor) -> None:
    if order.get("order") == "down":
        supervisor.end()
    elif order.get("order") == "roll":
        pool = order.get("pool")
        supervisor.roll(pool if isinstance(pool, str) else None)


def _require_build() -> None:
    try:
        find_build()
    except NoBuildError as error:
        raise KilocardError(f"{error}; or add --emulated") from error


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        about = path.stat()
    except OSError:
        return (0, 0, 0)
    return about.st_mtime_ns, about.st_size, about.st_ino
