"""Two ends measure the wire between them; whoever else is there gets one line, and no one else waits."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.network import Listener, measure_network, protocol, server
from kilocard.network.client import ask
from kilocard.network.protocol import FRAME, MAGIC, Frame, Line, Verb, place_of

FAR_S = 1e12


def _listen(told: Connection) -> None:
    listener = Listener(port=0)
    told.send(listener.address[1])
    listener.serve()


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """The port of a listener in a process of its own."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_listen, args=(theirs,))
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


@contextmanager
def listening(said: list[str] | None = None) -> Iterator[Listener]:
    listener = Listener(port=0, say=[].append if said is None else said.append)
    thread = threading.Thread(target=listener.serve)
    thread.start()
    try:
        yield listener
    finally:
        listener.close()
        thread.join(10)
        assert not thread.is_alive()


@contextmanager
def peer(act: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that is none of ours: what it does to each who connects."""
    with socket.create_server(("127.0.0.1", 0)) as listens:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listens.accept()
                    with connection, contextlib.suppress(OSError):
                        act(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listens.getsockname()[1]
        listens.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def wait_until(is_so: Callable[[], bool]) -> bool:
    """Whether it becomes so, however busy the machine is."""
    return any(is_so() or threading.Event().wait(0.01) for _ in range(3000))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "WAIT_S", 0.2)


def test_the_wire_between_two_processes(elsewhere: int) -> None:
    result = measure_network("127.0.0.1", elsewhere, streams=2)
    assert result.round_trip_p50_s > 0
    assert result.round_trips >= 20
    sizes = [trip.size_bytes for trip in result.trips]
    assert sizes == [1024 * 4**step for step in range(len(sizes))]
    assert all(trip.median_s > 0 and trip.n >= 2 for trip in result.trips)
    assert [rate.streams for rate in result.rates] == [1, 2]
    assert result.moved_bytes >= sum(trip.size_bytes * trip.n for trip in result.trips)
    assert result.wire.bytes_per_s <= result.bytes_per_s
    assert result.kind == "measured"


def test_what_is_echoed_is_what_was_sent(elsewhere: int) -> None:
    with socket.create_connection(("127.0.0.1", elsewhere)) as connection:
        line = Line(connection, FAR_S)
        ask(line, Frame(Verb.ECHO, 3, 5))
        for word in (b"three", b"words", b"there"):
            line.send(word)
            back = memoryview(bytearray(5))
            line.receive_into(back, 5)
            assert bytes(back) == word


def test_one_connection_serves_several_requests(elsewhere: int) -> None:
    with socket.create_connection(("127.0.0.1", elsewhere)) as connection:
        line = Line(connection, FAR_S)
        ask(line, Frame(Verb.GIVE, 3, 2**20))
        line.receive_into(memoryview(bytearray(1000)), 3 * 2**20)
        ask(line, Frame(Verb.TAKE, 1, 7))
        line.send(b"seventy")
        assert line.receive_frame() == Frame(Verb.OK, 1, 7)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda c: c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "speaks something else"),
        (lambda c: c.recv(100) and c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "speaks something else"),
        (lambda c: c.recv(100), "closed the connection"),
        (lambda c: threading.Event().wait(1), "silent"),
        (lambda c: c.recv(100) and c.sendall(Frame(Verb.OK, version=9).packed()), "version 9"),
        (lambda c: c.recv(100) and c.sendall(Frame(Verb.REFUSED).packed()), "refused"),
        (lambda c: c.recv(100) and c.sendall(Frame(Verb.OK).packed()[:10]), "in the middle"),
        (lambda c: c.recv(100) and c.sendall(Frame(Verb.OK).packed()), "in the middle|broke off"),
    ],
)
def test_another_peer_ends_the_test_in_one_line(act: Callable[[socket.socket], None], said: str) -> None:
    with peer(act) as port, pytest.raises(KilocardError, match=said) as refused:
        measure_network("127.0.0.1", port)
    assert "\n" not in str(refused.value)


def test_nobody_there_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(KilocardError, match="cannot be reached"):
        measure_network("127.0.0.1", port)
    with pytest.raises(KilocardError, match="cannot be reached"):
        measure_network("no-such-host.invalid", 7790)


def test_a_test_that_outlasts_its_time_says_so(elsewhere: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol.time, "monotonic", iter(range(0, 10**6, 3)).__next__)
    with pytest.raises(KilocardError, match="did not end within 10 s"):
        measure_network("127.0.0.1", elsewhere)


def test_a_slow_peer_is_slow_and_not_silent() -> None:
    def echo_slowly(connection: socket.socket) -> None:
        connection.recv(FRAME.size)
        connection.sendall(Frame(Verb.OK).packed())
        while word := connection.recv(64):
            threading.Event().wait(0.3)
            connection.sendall(word)

    with peer(echo_slowly) as port, pytest.raises(KilocardError, match="did not end within 1 s"):
        measure_network("127.0.0.1", port, limit_s=1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "speaks something else"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "speaks something else"),
        (b"kilo", "silent"),
        (Frame(Verb.TAKE, 1, 2**62).packed(), "not done here"),
        (Frame(Verb.TAKE, 2**32 - 1, 2**30).packed(), "not done here"),
        (Frame(Verb.ECHO, 1, 2**20).packed(), "not done here"),
        (Frame(Verb.ECHO, 0, 1).packed(), "not done here"),
        (Frame(99, 1, 1).packed(), "not done here"),
        (Frame(Verb.ECHO, 1, 1, version=2).packed(), "not done here"),
        (Frame(Verb.TAKE, 1, 1000).packed() + b"too little", "silent"),
    ],
)
def test_a_wrong_client_is_let_go_and_others_are_served(sent: bytes, said: str) -> None:
    told: list[str] = []
    with listening(told) as listener, socket.create_connection(listener.address) as wrong:
        wrong.sendall(sent)
        with socket.create_connection(listener.address) as right:
            ask(Line(right, FAR_S), Frame(Verb.ECHO, 1, 1))
        wrong.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            while wrong.recv(1000):
                pass
    assert wait_until(lambda: any(said in line for line in told))


@pytest.mark.usefixtures("impatient")
@settings(max_examples=30)
@given(st.binary(max_size=60), st.booleans())
def test_no_bytes_stop_the_listener(junk: bytes, led_by_magic: bool) -> None:
    with listening() as listener:
        with socket.create_connection(listener.address) as wrong, contextlib.suppress(OSError):
            wrong.sendall(MAGIC + junk if led_by_magic else junk)
        with socket.create_connection(listener.address) as right:
            ask(Line(right, FAR_S), Frame(Verb.ECHO, 1, 1))


def test_a_full_house_turns_away_and_opens_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 1)
    with listening() as listener:
        with socket.create_connection(listener.address) as first:
            ask(Line(first, FAR_S), Frame(Verb.ECHO, 1, 1))
            for _ in range(5):
                with pytest.raises(KilocardError, match=r"is busy: .+wait until other tests are done"):
                    measure_network(*listener.address)
            first.sendall(b"x")
            assert first.recv(1) == b"x"
        assert wait_until(lambda: listener.served == 1)
        with socket.create_connection(listener.address) as third:
            ask(Line(third, FAR_S), Frame(Verb.ECHO, 1, 1))


def test_a_port_that_cannot_be_is_refused() -> None:
    with pytest.raises(KilocardError, match="port 70000"):
        Listener(port=70_000)
    with listening() as listener, pytest.raises(KilocardError, match="cannot listen on"):
        Listener(port=listener.address[1])
    with pytest.raises(KilocardError, match="cannot listen on"):
        Listener("203.0.113.1", 0)


def test_an_address_is_written_once_and_ipv6_in_brackets() -> None:
    with pytest.raises(KilocardError) as refused:
        Listener("203.0.113.1", 7790)
    assert str(refused.value).count("203.0.113.1") == 1
    with pytest.raises(KilocardError, match=r"cannot listen on \[2001:db8::1\]:7790 \("):
        Listener("2001:db8::1", 7790)
    with pytest.raises(KilocardError, match=r"^\[::1\]:9 cannot be reached"):
        measure_network("::1", 9)
    with pytest.raises(KilocardError, match="no host to listen on"):
        Listener("", 0)
    assert place_of("::", 1) == "[::]:1"
    assert place_of("host", 1) == "host:1"


@pytest.mark.parametrize("options", [{"streams": 0}, {"streams": 1000}, {"limit_s": 0.0}, {"limit_s": 1e9}])
def test_limits_of_a_test(options: dict[str, float]) -> None:
    with pytest.raises(KilocardError, match="give 1 to"):
        measure_network("127.0.0.1", 9, **options)  # type: ignore[arg-type]


@given(st.integers(0, 255), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_a_frame_is_24_bytes_and_its_limits_bound_what_is_moved(verb: int, count: int, size: int) -> None:
    frame = Frame(verb, count, size)
    assert len(frame.packed()) == FRAME.size == 24
    assert struct.unpack_from("!8s", frame.packed())[0] == MAGIC
    if frame.is_within_limits:
        assert 0 < frame.count * frame.size <= 16 * 2**30
