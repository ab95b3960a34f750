"""A supervisor in a process of its own: from a notebook, a test or a benchmark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kilocard.errors import KilocardError
from kilocard.launch.command import NoBuildError, find_build
from kilocard.processes import die_with_parent, free_row_of_ports
from kilocard.supervisor.control import order
from kilocard.supervisor.home import Home
from kilocard.supervisor.state import Held, State, read_state

READY_TIMEOUT_S, END_TIMEOUT_S = 900.0, 900.0
LOOK_S = 0.1


@dataclass
class AtWork:
    """A running `kilocard up` over a cluster file of its own, in a folder of its own."""

    path: Path
    home: Home
    is_emulated: bool
    cluster: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None
    _log: Path = field(init=False)
    _parent: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._log = self.path.with_suffix(".log")
        # A child ends with the thread that began it, not with its process: this one lives as long as we do.
        self._parent = ThreadPoolExecutor(1, thread_name_prefix="kilocard-up")

    @property
    def url(self) -> str:
        """Where clients ask."""
        return f"http://127.0.0.1:{self.cluster['gateway']['port']}"

    @property
    def state(self) -> State:
        """As it was written down last."""
        return read_state(self.home.state) or State("", str(self.path))

    def engines(self) -> dict[str, Held]:
        """Slot → what is in it, gateways left out."""
        return {name: held for name, held in self.state.held.items() if held.slot.pool[0] != ":"}

    @property
    def said(self) -> str:
        """What it has said so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def events(self) -> list[dict[str, Any]]:
        """Everything that was done, in order; `t_s` is on the clock of this machine's processes."""
        try:
            lines = self.home.events.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def is_ready(self) -> bool:
        """Whether every slot serves with what it shall have, is sent requests, and no change is under way."""
        return self.state.is_ready

    def await_that(self, holds: Callable[[], object], within_s: float = READY_TIMEOUT_S) -> None:
        """Until something holds; an error where the supervisor ends before, or the time does."""
        until = time.monotonic() + within_s
        while not holds():
            if self.process is not None and self.process.poll() is not None:
                raise KilocardError(f"the supervisor has ended: {self.said.strip().splitlines()[-1:]}")
            if time.monotonic() > until:
                raise KilocardError(f"it does not come to that within {within_s:.0f} s: {self.said[-500:]}")
            time.sleep(LOOK_S)

    def start(self) -> None:
        """`kilocard up`; it ends what it runs when this process is gone. From any thread."""
        self.process = self._parent.submit(self._begin).result()

    def _begin(self) -> subprocess.Popen[bytes]:
        me = os.getpid()
        flags = ["--emulated"] if self.is_emulated else []
        argv = [sys.executable, "-m", "kilocard", "up", str(self.path), "--no-view", *flags]
        environment = {**os.environ, "KILOCARD_CLUSTERS": str(self.home.folder.parent)}
        with self._log.open("ab") as log:
            return subprocess.Popen(
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: die_with_parent(me, signal.SIGTERM),  # noqa: PLW1509 (it takes no lock)
            )

    def kill(self) -> None:
        """The supervisor alone, without a word."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def change(self, **sections: Any) -> None:
        """Put other sections in the file, at once."""
        self.cluster = {**self.cluster, **sections}
        write_cluster(self.path, self.cluster)

    def roll(self, pool: str | None = None) -> None:
        """Have every engine started anew, batch by batch."""
        order(self.home, "roll", pool=pool)

    def end(self) -> None:
        """Drain and end everything; a supervisor that has died is started again for that."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        assert self.process is not None
        while self.process.poll() is None and order(self.home, "down") is None:
            time.sleep(LOOK_S)
        self.process.wait(END_TIMEOUT_S)


def write_cluster(path: Path, cluster: Mapping[str, Any]) -> None:
    """Beside, then in its place: nobody reads half a file."""
    beside = path.with_suffix(".new")
    beside.write_text(yaml.safe_dump(dict(cluster), sort_keys=False), encoding="utf-8")
    beside.replace(path)


@contextmanager
def supervised(cluster: Mapping[str, Any], *, is_emulated: bool | None = None) -> Iterator[AtWork]:
    """A cluster at work for the length of a block, on free ports; ready where the block begins. Unless told,
    its engines are emulated where no vLLM is installed that runs here."""
    if is_emulated is None:
        is_emulated = not _has_build()
    told = on_free_ports(cluster)
    with tempfile.TemporaryDirectory(prefix="kilocard-up-") as folder:
        path = Path(folder) / f"{told['name']}.yaml"
        home = Home(Path(folder) / "clusters" / told["name"])
        (home.folder / "logs").mkdir(parents=True)
        write_cluster(path, told)
        running = AtWork(path, home, is_emulated, told)
        running.start()
        try:
            running.await_that(running.is_ready)
            yield running
        finally:
            running.end()


def _has_build() -> bool:
    try:
        find_build()
    except NoBuildError:
        return False
    return True


def on_free_ports(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster with ports of its own: a row for each pool's engines, for gateways and their doors."""
    gateway = dict(cluster.get("gateway", {}))
    count = int(gateway.get("gateways", 1))
    pools = []
    for pool in cluster["pools"]:
        room = max(8, 2 * int(pool["replicas"]))
        pools.append({**pool, "port": free_row_of_ports(room)})
    gateway |= {"port": free_row_of_ports(count)}
    gateway["admin"] = {**gateway.get("admin", {}), "port": free_row_of_ports(count)}
    gateway["metrics"] = {**gateway.get("metrics", {}), "port": free_row_of_ports(count)}
    return {**cluster, "pools": pools, "gateway": gateway}
