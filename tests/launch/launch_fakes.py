"""Fake engines, and a look at whatever they leave behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kilocard import processes
from kilocard.launch.command import Command
from kilocard.launch.engine import Engine
from kilocard.launch.process import start
from kilocard.specs.engine import EngineSpec

FAKE = Path(__file__).with_name("fake_engine.py")
SPEC = EngineSpec(model="fake-model", served_model_name="fake-model")


def eventually(what: Callable[[], bool], timeout_s: float = 15.0) -> bool:
    """Whether this comes true in time."""
    deadline = time.monotonic() + timeout_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@dataclass
class Fake:
    """One fake engine: its command, and all that could be left of it."""

    cache: Path
    tag: str = field(default_factory=lambda: uuid.uuid4().hex)
    flags: tuple[str, ...] = ("--workers",)
    users: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def command(self) -> Command:
        return Command((sys.executable, "-S", str(FAKE), *self.flags), {"KILOCARD_TEST_TAG": self.tag})

    def start(self, **options: object) -> Engine:
        return start(SPEC, command=self.command, **options)  # type: ignore[arg-type]

    def user(self, code: str = "time.sleep(600)") -> subprocess.Popen[str]:
        """Another process that starts or joins the engine, prints its pid, and then does this."""
        program = (
            "import os, sys, time, signal\n"
            "from kilocard.launch.command import Command\n"
            "from kilocard.launch.process import launch, start\n"
            "from kilocard.specs.engine import EngineSpec\n"
            f"spec = EngineSpec(**{SPEC.model_dump(exclude_defaults=True)!r})\n"
            f"command = Command({self.command.argv!r}, {dict(self.command.environment)!r})\n"
            "engine = start(spec, command=command)\n"
            "print(engine._hold.info['engine_pid'], flush=True)\n"
            f"{code}\n"
        )
        environment = {**os.environ, "KILOCARD_CACHE": str(self.cache)}
        self.users.append(
            subprocess.Popen(
                [sys.executable, "-c", program],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
        )
        return self.users[-1]

    def processes(self) -> list[int]:
        """Everything that runs with this engine's tag in its environment."""
        tag = self.tag.encode()
        found = []
        for pid in processes.process_ids():
            try:
                if tag in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(pid)
            except OSError:
                continue
        return found

    def name_is_held(self) -> bool:
        return f"@kilocard-{os.getuid()}-{self.command.digest}" in Path("/proc/net/unix").read_text()

    def guard_pid(self, engine_pid: int) -> int:
        return int(processes.stat_fields(engine_pid)[1])

    def is_gone(self) -> bool:
        """Whether no process is left and nobody answers to its name."""
        return not self.processes() and not self.name_is_held()


def traces(engine_pid: int, guard_pid: int, url: str) -> list[str]:
    """What an engine that has ended may have left: files, shared memory, its port."""
    folders = [str(path) for path in Path(tempfile.gettempdir()).glob(f"kilocard-{guard_pid}-*")]
    shared = [str(path) for path in Path("/dev/shm").glob(f"psm_{engine_pid}")]
    port = int(url.rpartition(":")[2])
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return [*folders, *shared, url]
    return [*folders, *shared]
