"""The engine's guard: starts it, serves those who share it, and leaves nothing of it behind.

Run as a file, standard library and `processes` only; its orders come on stdin as one JSON object. Every user
of the engine holds a connection to the guard's socket. When the last user is gone, however it died, the guard
drains the engine, kills what is left of it, and removes its temporary folder and shared memory. One that is
told to keep its engine does so without users too, until a SIGTERM.

As a child subreaper the guard inherits every orphan of the engine, so none can slip away; and the engine dies
with its guard (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # An isolated Python knows of no package.
    sys.path.append(str(Path(__file__).parents[2]))

from kilocard.processes import (
    SharedFiles,
    descendants,
    is_resource_tracker,
    libc,
    settle,
    started_at,
)

PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36
KILL_GRACE_S = 5.0
TRACKER_GRACE_S = 2.0
LOCK = "guard.lock"


class Guard:
    """One engine, its users, and the end of both."""

    def __init__(self, orders: dict[str, Any], listener: socket.socket, first: socket.socket) -> None:
        self.orders = orders
        self.listener = listener
        self.users: set[socket.socket] = set()
        self.departed: list[socket.socket] = []
        self.pidfds: dict[socket.socket, int] = {}
        self.selector = selectors.DefaultSelector()
        self.wakeup = self._listen_to_signals()
        self.told_to_stop = False
        self.deadline: float | None = None
        self.exit_code: int | None = None
        self.shared_files = SharedFiles(os.getpid())
        self.folder = Path(orders["temp_root"]) / f"kilocard-{os.getpid()}-{started_at(os.getpid())}"
        self.folder.mkdir(mode=0o700)
        self.lock = (self.folder / LOCK).open("wb")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        try:
            self.engine = self._start()
        except OSError:
            shutil.rmtree(self.folder)
            raise
        self.selector.register(listener, selectors.EVENT_READ, self._welcome)
        self._admit(first)

    def _listen_to_signals(self) -> int:
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self.selector.register(reading, selectors.EVENT_READ, None)
        return reading

    def _on_sigterm(self, *_: object) -> None:
        self.told_to_stop = True

    def _start(self) -> subprocess.Popen[bytes]:
        mark = f"{os.getpid()}:{started_at(os.getpid())}"
        folder = str(self.folder)
        own = {"TMPDIR": folder, "VLLM_RPC_BASE_PATH": folder, "KILOCARD_GUARD": mark}
        me = os.getpid()
        with Path(self.orders["log"]).open("ab") as log:
            return subprocess.Popen(
                self.orders["argv"],
                env={**self.orders["environment"], **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                preexec_fn=lambda: settle(me, self.orders["cores"]),  # noqa: PLW1509 (the guard has one thread)
            )

    def run(self) -> None:
        """Serve until the engine is gone and nothing of it is left."""
        try:
            self._serve()
        finally:
            self._clean_up()

    def _serve(self) -> None:
        while self.exit_code is None and not (self.deadline and time.monotonic() > self.deadline):
            self._part()
            for key, _ in self.selector.select(self._patience_s()):
                if key.data:
                    key.data()
            self._drop_wakeups()
            self.shared_files.look()
            self._reap()
        if not self.deadline:
            self._tell_users({"event": "exited", "code": self.exit_code})
            self._note_end()

    def _patience_s(self) -> float:
        due_s = self.shared_files.due_s
        until = min(due_s, self.deadline or due_s) - time.monotonic()
        return max(until, 0.01)

    def _drop_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.wakeup, 4096)

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):
            self._admit(self.listener.accept()[0])

    def _admit(self, user: socket.socket) -> None:
        pid, uid, _ = struct.unpack("3i", user.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid != os.getuid():
            user.close()
            return
        user.setblocking(False)
        self.users.add(user)
        state = "stopping" if self.deadline else "running"
        self._send(
            user, {**self.orders["info"], "state": state, "pid": os.getpid(), "engine_pid": self.engine.pid}
        )
        if self.deadline:
            return  # It is let go at the end, and then knows that it may start an engine of its own.
        self.selector.register(user, selectors.EVENT_READ, lambda: self._hear(user))
        with contextlib.suppress(OSError):  # A process in another PID namespace: only its hang-up is seen.
            self.pidfds[user] = os.pidfd_open(pid)
            self.selector.register(self.pidfds[user], selectors.EVENT_READ, lambda: self._release(user))

    def _hear(self, user: socket.socket) -> None:
        try:
            if user.recv(4096):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._release(user)

    def _release(self, user: socket.socket) -> None:
        if user not in self.users:
            return
        self.users.discard(user)
        self.selector.unregister(user)
        if (pidfd := self.pidfds.pop(user, None)) is not None:
            self.selector.unregister(pidfd)
            os.close(pidfd)
        self.departed.append(user)

    def _part(self) -> None:
        """Let the departed go; but the last of all is held until nothing is left: it waits for that."""
        if self.told_to_stop or not (self.users or self.orders.get("keeps")):
            self._drain()
        elif self.deadline is None:
            while self.departed:
                self.departed.pop().close()

    def _tell_users(self, message: dict[str, Any]) -> None:
        for user in self.users:
            self._send(user, message)

    def _note_end(self) -> None:
        """For whoever comes when no guard is left to ask."""
        if note := self.orders.get("end"):
            with contextlib.suppress(OSError):
                Path(note).write_text(str(self.exit_code), encoding="ascii")

    @staticmethod
    def _send(user: socket.socket, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            user.send(json.dumps(message).encode() + b"\n")

    def _drain(self) -> None:
        if self.deadline is None:
            self.deadline = time.monotonic() + self.orders["drain_s"] + KILL_GRACE_S
            os.kill(self.engine.pid, signal.SIGTERM)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.shared_files.reaped(pid)
                if pid == self.engine.pid:
                    self.exit_code = self.engine.returncode = os.waitstatus_to_exitcode(status)

    def _clean_up(self) -> None:
        self.deadline = self.deadline or time.monotonic()
        self._kill_the_rest()
        self.shared_files.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _kill_the_rest(self) -> None:
        """SIGKILL to all; last to Python's resource trackers, which remove what the dead shared."""
        began = time.monotonic()
        while (left := descendants(os.getpid())) and time.monotonic() - began < 30:
            spare_trackers = time.monotonic() - began < TRACKER_GRACE_S
            for pid in left:
                self.shared_files.note(pid)
                if not (spare_trackers and is_resource_tracker(pid)):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            self._reap()
            time.sleep(0.02)


def main() -> None:
    """Read the orders and serve."""
    libc.prctl(PR_SET_NAME, b"kilocard-guard", 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    listener, first, *_held = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    for passed in (listener, first, *_held):
        os.set_inheritable(passed.fileno(), False)
    Guard(json.load(sys.stdin), listener, first).run()


if __name__ == "__main__":
    main()
