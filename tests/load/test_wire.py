"""What a connection meets: closed ones, other protocols, answers without end, and a machine out of files."""

import errno
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kilocard.load import sweep
from kilocard.load.client import is_clients_fault
from kilocard.load.truth_process import truth_server
from kilocard.load.truth_script import Fault, Script
from kilocard.record import Run, Status

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
SAID = (
    b'data: {"choices": [{"text": "a", "finish_reason": "length"}],'
    b' "usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n\ndata: [DONE]\n\n'
)
WELL = HEAD + b"content-length: %d\r\n\r\n%b" % (len(SAID), SAID)
Serve = Callable[[Callable[[socket.socket, int, int], bool]], Any]


def swept(url: str, requests: int = 4) -> Run:
    return sweep(url, concurrency=(1,), requests_per_level=requests, warmup=0, timeouts=5.0)


def test_a_connection_that_the_server_closed_as_idle_is_dialled_anew(odd_server: Serve) -> None:
    def answer(caller: socket.socket, connection: int, request: int) -> bool:
        if request == 0:
            caller.sendall(WELL)
        return request == 0

    run = swept(odd_server(answer).url)
    assert (run.requests["status"] == Status.OK).all(), run.requests["error"].tolist()
    assert run.requests["retries"].tolist() == [0, 1, 1, 1]
    assert run.stamp.client["retries"] == 3
    assert (run.requests["first_token_s"] > run.requests["sent_s"]).all()


def test_a_request_is_sent_anew_only_once_and_not_from_a_fresh_connection(odd_server: Serve) -> None:
    def answer(caller: socket.socket, connection: int, request: int) -> bool:
        if connection == 1 and request == 0:
            caller.sendall(WELL)
            return True
        return False

    run = swept(odd_server(answer).url, 3)
    assert run.requests["status"].tolist() == [Status.OK, Status.LOST, Status.LOST]
    assert run.requests["retries"].tolist() == [0, 1, 0]


def test_an_answer_that_has_begun_is_not_asked_for_again(odd_server: Serve) -> None:
    def answer(caller: socket.socket, connection: int, request: int) -> bool:
        caller.sendall(WELL if request == 0 else WELL[:-40])
        return request == 0

    run = swept(odd_server(answer).url, 2)
    assert run.requests["status"].tolist() == [Status.OK, Status.LOST]
    assert run.stamp.client["retries"] == 0


def test_a_server_that_is_gone_when_dialled_anew_has_lost_the_request(odd_server: Serve) -> None:
    def answer(caller: socket.socket, connection: int, request: int) -> bool:
        if request == 0:
            caller.sendall(WELL)
            return True
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()
        return False

    server = odd_server(answer)
    run = swept(server.url, 2)
    assert run.requests["status"].tolist() == [Status.OK, Status.LOST]
    assert "refused" in run.requests["error"].iloc[1]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "HTTP 101"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n" + b"x" * 3000, "not a stream"),
        (HEAD + b"content-length: 9999\r\n\r\n" + b": ping\n\n" * 500, "longer than"),
        (WELL.replace(b'"completion_tokens": 1', b'"completion_tokens":2E9'), "completion_tokens"),
    ],
)
def test_an_odd_answer_fails_its_request_and_never_the_run(
    odd_server: Serve, monkeypatch: pytest.MonkeyPatch, answer: bytes, says: str
) -> None:
    monkeypatch.setattr("kilocard.load.connection.JSON_BYTES", 2000)
    monkeypatch.setattr("kilocard.load.connection.STREAM_BYTES", 3000)

    def answered(caller: socket.socket, connection: int, request: int) -> bool:
        caller.sendall(answer if connection == 1 and request == 1 else WELL)
        return True

    run = swept(odd_server(answered).url)
    assert run.requests["status"].tolist() == [Status.OK, Status.ERROR, Status.OK, Status.OK]
    assert says in run.requests["error"].iloc[1]


@pytest.mark.parametrize(
    ("error", "is_ours"),
    [
        (OSError(errno.EMFILE, "Too many open files"), True),
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"), True),
        (OSError("Multiple exceptions: [Errno 111] Connection refused, [Errno 99] Cannot assign"), True),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), False),
        (OSError("Multiple exceptions: [Errno 111] refused, [Errno 113] no route"), False),
    ],
)
def test_want_of_files_and_ports_is_this_machines_fault(error: OSError, is_ours: bool) -> None:
    assert is_clients_fault(error) is is_ours


def test_a_machine_out_of_files_is_not_the_engines_fault() -> None:
    measure = """if True:
        import json, sys
        from kilocard.load import replay
        from kilocard.workload import Arrivals, Fixed, Workload
        load = Workload(120, Fixed(1), Fixed(1), Arrivals(2000.0, "constant"))
        run = replay(sys.argv[1], workloads=load, warmup=0, timeouts=2.0)
        print(json.dumps([run.requests["error"].tolist(), run.stamp.valid, run.stamp.invalid_reason,
                          run.stamp.client["stopped"]]))
    """
    with truth_server(Script(faults={-1: Fault.HANG_BEFORE})) as server:
        command = f"ulimit -n 70; exec {sys.executable} - {server.url}"
        done = subprocess.run(
            ["bash", "-c", command], input=measure, capture_output=True, text=True, timeout=60, check=False
        )
    errors, valid, reason, stopped = json.loads(done.stdout or done.stderr)
    assert any("this machine can open no connection (Too many open files)" in error for error in errors)
    assert not valid
    assert "this machine could not send" in reason
    assert "could not be sent" in stopped
