"""The other machine of a network test, played by another process of this one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from kilocard.errors import KilocardError
from kilocard.network import Listener
from kilocard.processes import settle


@contextlib.contextmanager
def far_end(cores: Sequence[int] = ()) -> Iterator[tuple[str, int]]:
    """Where another process, on these cores if some are named, answers tests; it ends with the block."""
    me = os.getpid()
    with subprocess.Popen(
        [sys.executable, "-m", "kilocard.notebook.far_end"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: settle(me, list(cores)),  # noqa: PLW1509 (it forks no thread)
    ) as process:
        try:
            assert process.stdout, "it was opened as a pipe"
            if not (line := process.stdout.readline()):
                raise KilocardError("the other end of the network test did not start: run the cell again")
            host, port = line.split()
            yield host, int(port)
        finally:
            process.kill()


def main() -> None:
    """Listen on a free port of the loopback, and say which."""
    listener = Listener("127.0.0.1", 0)
    print(*listener.address, flush=True)
    listener.serve()


if __name__ == "__main__":
    main()
