"""A supervisor over programs that are only played: as many looks as one likes, in no time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kilocard.errors import KilocardError
from kilocard.launch.keep import Kept
from kilocard.lifecycle import Phase
from kilocard.specs.cluster import ClusterSpec, cluster_from
from kilocard.supervisor import hands, signs, watch
from kilocard.supervisor.checksums import Verifier
from kilocard.supervisor.gateways import GatewaySeat
from kilocard.supervisor.home import Home
from kilocard.supervisor.state import Held, State, boot_id
from kilocard.supervisor.supervisor import Supervisor

FILE: dict[str, Any] = {
    "name": "t",
    "model": "qwen3-8b",
    "version": "v1",
    "engine": {"max_num_seqs": 8},
    "pools": [{"name": "chat", "card": "h100-sxm", "replicas": 4}],
    "lifecycle": {
        "ready": {"every_s": 0.1, "successes": 1, "within_s": 60},
        "drain_s": 30,
        "stop_s": 2,
        "roll": {"verify_s": 0},
        "canary": None,
        "crashes": {"back_off_s": 1, "most": 3, "within_s": 600},
    },
}
LOOK_S = 0.2


class AtOnce:
    """A pool of threads that has done everything when it is asked."""

    def __init__(self, *_: object, **__: object) -> None:
        """Of any size."""

    def submit(self, what: Callable[..., Any], *about: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(what(*about))
        except Exception as error:
            done.set_exception(error)
        return done

    def shutdown(self, **_: object) -> None:
        """Nothing is left to do."""


@dataclass
class World:
    """Which programs run, by process, and what is wrong with them."""

    ports: dict[int, int] = field(default_factory=dict)
    """Process → port."""
    started: Counter[str] = field(default_factory=Counter)
    kept: dict[str, int] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    """To the gateways."""
    unwilling: dict[str, Exception] = field(default_factory=dict)
    in_flight: Counter[str] = field(default_factory=Counter)
    killed: set[int] = field(default_factory=set)
    last_pid: int = 100

    def start(self, name: str, port: int) -> Kept:
        self.started[name] += 1
        if name in self.unwilling:
            raise self.unwilling[name]
        assert port not in self.ports.values(), f"{name} would find port {port} taken"
        self.last_pid += 1
        self.ports[self.last_pid] = port
        self.kept[name] = self.last_pid
        return Played(self, self.last_pid)

    def answers(self, url: str, *_: object) -> bool:
        port = int(url.rpartition(":")[2])
        silent = {self.kept[name] for name in self.silent if name in self.kept}
        return any(its == port and pid not in silent for pid, its in self.ports.items())

    def die(self, name: str) -> None:
        self.ports.pop(self.kept[name], None)


class Played(Kept):
    """A process of this world."""

    world: World

    def __init__(self, world: World, pid: int) -> None:
        super().__init__(pid, "age", pid)
        WORLDS[pid] = world

    @property
    def is_alive(self) -> bool:
        return self.pid in WORLDS[self.pid].ports

    def stop(self) -> None:
        world = WORLDS[self.pid]
        if self.pid not in {world.kept[name] for name in world.deaf}:
            world.ports.pop(self.pid, None)

    def kill(self) -> None:
        WORLDS[self.pid].killed.add(self.pid)
        WORLDS[self.pid].ports.pop(self.pid, None)


WORLDS: dict[int, World] = {}


@dataclass
class Starter:
    """Starts what is played."""

    world: World
    home: Home
    is_emulated: bool = True
    engine_key: str = ""
    admin_key: str = ""
    verifier: Verifier = field(default_factory=Verifier)

    def start(self, spec: ClusterSpec, state: State, held: Held) -> Kept:
        return self.world.start(held.slot.name, held.port)


class Cluster:
    """A supervisor, its world, and what it said."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **changes: Any) -> None:
        self.world, self.said, self.now_s = World(), list[str](), 1000.0
        patch.setattr(hands, "ThreadPoolExecutor", AtOnce)
        patch.setattr(watch, "ThreadPoolExecutor", AtOnce)
        for question in ("completes", "is_healthy", "answers"):
            patch.setattr(signs, question, self.world.answers)
        patch.setattr(GatewaySeat, "reload", lambda _: "")
        patch.setattr(GatewaySeat, "rows", lambda _: self._rows())
        (folder / "logs").mkdir(exist_ok=True)
        self.file = {**FILE, **changes}
        self.home = Home(folder)
        starter: Any = Starter(self.world, self.home)
        spec, state = cluster_from(self.file), State(boot_id(), "file")
        self.supervisor = Supervisor(spec, state, self.home, starter, self.said.append)

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"id": name, "in_flight": self.world.in_flight[name], "served": 0, "state": self._state(name)}
            for name in self.phases
        ]

    def _state(self, name: str) -> str:
        return "starting" if name in self.world.unknown else "up"

    def change(self, **changes: Any) -> None:
        self.file = {**self.file, **changes}
        self.supervisor.adopt(cluster_from(self.file))

    def look(self, times: int = 1, every_s: float = LOOK_S) -> None:
        for _ in range(times):
            self.now_s += every_s
            self.supervisor.tick(self.now_s)

    def look_until(self, holds: Callable[[], object], most: int = 4000) -> None:
        for _ in range(most):
            if holds():
                return
            self.look()
        raise KilocardError(f"it does not come to that: {self.phases}")

    def look_until_ready(self) -> None:
        self.look()
        self.look_until(lambda: self.supervisor.is_ready)

    @property
    def held(self) -> dict[str, Held]:
        return self.supervisor.state.held

    @property
    def phases(self) -> dict[str, Phase]:
        return {name: held.slot.phase for name, held in self.held.items()}

    @property
    def serving(self) -> int:
        return sum(
            held.slot.phase is Phase.SERVING for held in self.held.values() if held.slot.pool[0] != ":"
        )
