"""Truth servers for the tests of the load generator."""

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from kilocard.load.truth_process import TruthServer, truth_server
from kilocard.load.truth_script import Script


@pytest.fixture(scope="session")
def truth() -> Iterator[TruthServer]:
    """A healthy server, three tokens packed into a chunk, a frame without a token first."""
    script = Script(ttft_s=0.004, tpot_s=0.001, chunk=3, role_frame=True, cached_tokens=5)
    with truth_server(script) as server:
        yield server


class OddServer:
    """An engine of one model whose completions a test answers byte by byte.

    `answer` gets the socket, the number of the connection and that of the request on it; True keeps it open.
    """

    def __init__(self, answer: Callable[[socket.socket, int, int], bool]) -> None:
        self._answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            for number in itertools.count():
                caller, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(caller, number), daemon=True).start()

    def _serve(self, caller: socket.socket, connection: int) -> None:
        stream, request = caller.makefile("rb"), 0
        with contextlib.suppress(OSError), caller, stream:
            while first := stream.readline():
                head = dict(line.lower().split(b": ", 1) for line in iter(stream.readline, b"\r\n"))
                stream.read(int(head.get(b"content-length", 0)))
                if first.startswith(b"GET"):
                    self._json(caller)
                    continue
                if not self._answer(caller, connection, request):
                    caller.shutdown(socket.SHUT_RDWR)
                    return
                request += 1

    @staticmethod
    def _json(caller: socket.socket) -> None:
        content = b'{"data": [{"id": "odd"}]}'
        caller.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(content), content))


@pytest.fixture
def odd_server() -> Iterator[Callable[[Callable[[socket.socket, int, int], bool]], OddServer]]:
    """Makes such a server, and closes it."""
    made: list[OddServer] = []

    def make(answer: Callable[[socket.socket, int, int], bool]) -> OddServer:
        made.append(OddServer(answer))
        return made[-1]

    yield make
    for server in made:
        server.listener.close()
