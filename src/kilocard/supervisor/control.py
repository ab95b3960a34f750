"""Orders to a supervisor that runs: one JSON line each, from processes of the same user on this machine."""

from __future__ import annotations

import json
import os
import queue
import socket
import struct
import threading
from contextlib import suppress
from typing import Any

from kilocard.errors import KilocardError
from kilocard.supervisor.home import Home

TIMEOUT_S = 10.0
MOST_BYTES = 65_536


class Control:
    """Takes orders in a thread of its own; whoever runs the supervisor takes them from `orders`."""

    def __init__(self, home: Home) -> None:
        self.orders: queue.Queue[dict[str, Any]] = queue.Queue()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(home.socket)
        self._listener.listen(16)
        threading.Thread(target=self._serve, name="kilocard-orders", daemon=True).start()

    def close(self) -> None:
        """Take no more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with caller, suppress(OSError, ValueError):
                caller.settimeout(TIMEOUT_S)
                _, uid, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                if uid != os.getuid():
                    continue
                order = json.loads(caller.makefile("rb").readline(MOST_BYTES))
                if isinstance(order, dict):
                    self.orders.put(order)
                    caller.sendall(json.dumps({"pid": os.getpid()}).encode() + b"\n")


def order(home: Home, what: str, **about: Any) -> int | None:
    """Give an order; the supervisor's process id, None where none runs."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(TIMEOUT_S)
        try:
            asked.connect(home.socket)
        except OSError:
            return None
        try:
            asked.sendall(json.dumps({"order": what, **about}).encode() + b"\n")
            return int(json.loads(asked.makefile("rb").readline(MOST_BYTES))["pid"])
        except (OSError, ValueError, LookupError) as error:
            raise KilocardError(f"the supervisor does not answer ({error}): see its terminal") from error
