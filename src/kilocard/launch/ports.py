"""Ports of this machine, held for an engine until it listens."""

from __future__ import annotations

import errno
import socket

from kilocard.errors import KilocardError
from kilocard.launch.lease import claim


def reserved_port(
    port: int, host: str = "127.0.0.1", way_out: str = "name another, or 0 for a free one"
) -> tuple[socket.socket, socket.socket]:
    """This port, or a free one for 0, held until the engine listens: against strangers, and by name.

    The name is for engines that start at the same time: vLLM binds with SO_REUSEPORT, so that two of them
    would share a port without a word.
    """
    if not 0 <= port <= 65535:
        raise KilocardError(f"port {port} is out of range: take one of 1024 to 65535, or 0 for a free one")
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((host, port))
    except OSError as error:
        held.close()
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be had ({error.strerror})"
        raise KilocardError(f"port {port} {why}: {way_out}") from error
    if not (name := claim(f"\0kilocard-port-{held.getsockname()[1]}")):
        held.close()
        raise KilocardError(f"port {port} is taken by an engine that starts: {way_out}")
    return held, name
