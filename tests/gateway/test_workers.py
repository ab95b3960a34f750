"""Several gateway processes on one port: one that dies comes again, and none outlives who started them."""

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml
from gateway_at_work import eventually

from kilocard.errors import KilocardError
from kilocard.gateway.workers import reserve_port
from kilocard.processes import free_ports


def two_in_a_row(base: int) -> tuple[int, int]:
    """Ports that are free together, below those that the kernel hands out."""
    places = range(base, base + 5_000, 2)
    for first in random.sample(places, len(places)):
        with suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", first))
            other.bind(("127.0.0.1", first + 1))
            return first, first + 1
    raise AssertionError(f"no two free ports in a row from {base} on")


@pytest.fixture
def parent(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    (port,), (admin, _), (metrics, _) = free_ports(1), two_in_a_row(20_000), two_in_a_row(25_000)
    gateway = {"port": port, "admin": {"port": admin}, "metrics": {"port": metrics}}
    pools = [{"name": "p", "replicas": ["http://127.0.0.1:9"]}]
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump({"name": "t", "model": "m", "pools": pools, "gateway": gateway}))
    start = "from kilocard.cli import main; main()"
    command = [sys.executable, "-c", start, "gateway", str(path), "--workers", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None and process.stdout.readline().startswith("http://")
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(KilocardError, match=rf"cannot listen on 127.0.0.1:{port} "):
            reserve_port("127.0.0.1", port)


def test_a_port_that_others_share_is_theirs() -> None:
    held = reserve_port("127.0.0.1", 0)
    try:
        with pytest.raises(KilocardError, match="cannot listen on"):
            reserve_port("127.0.0.1", held.getsockname()[1])
    finally:
        held.close()


def workers(parent: "subprocess.Popen[str]") -> list[psutil.Process]:
    return [it for it in psutil.Process(parent.pid).children() if it.status() != psutil.STATUS_ZOMBIE]


def test_one_that_is_killed_comes_again(parent: "subprocess.Popen[str]") -> None:
    first, second = workers(parent)
    os.kill(first.pid, signal.SIGKILL)
    assert eventually(lambda: {it.pid for it in workers(parent)} - {first.pid, second.pid})
    assert second in workers(parent)


def test_all_end_when_they_are_told(parent: "subprocess.Popen[str]") -> None:
    its = workers(parent)
    parent.terminate()
    assert parent.wait(30) == 0
    assert not any(it.is_running() for it in its)


def test_none_outlives_a_parent_that_is_killed(parent: "subprocess.Popen[str]") -> None:
    its = workers(parent)
    assert len(its) == 2
    os.kill(parent.pid, signal.SIGKILL)
    assert eventually(lambda: not any(it.is_running() for it in its))
