"""`kilocard gateway`: says where it listens, one beside another from one file; and the keys it makes."""

import json
import random
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import yaml

from kilocard import cli
from kilocard.gateway.keys import keys_from

KILOCARD = [sys.executable, "-c", "from kilocard.cli import main; main()"]


def run(capsys: pytest.CaptureFixture[str], command: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(command.split())
    assert ended.value.code == 0
    return capsys.readouterr().out


def four_free_ports() -> int:
    """The first of four in a row, under those that the system gives to whoever asks."""
    for first in random.sample(range(20_000, 30_000, 4), 100):
        with suppress(OSError), ExitStack() as stack:
            for port in range(first, first + 4):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise RuntimeError("no four ports in a row are free")


def test_a_key_is_shown_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, key, _, line = run(capsys, "gateway-key acme-1 --tenant acme --expires 2027-06-30").splitlines()
    told = json.loads(run(capsys, "gateway-key acme-2 --json"))
    ring = keys_from(f"{line}\n{told['line']}")
    one, other = ring.find(key.encode(), 0.0), ring.find(told["key"].encode(), 0.0)
    assert one is not None and (one.name, one.tenant) == ("acme-1", "acme")
    assert other is not None and other.tenant == "acme-2"
    assert one.expires_s < other.expires_s


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["gateway-key", "a b"])
    assert ended.value.code == 2
    assert "is no name of a key" in capsys.readouterr().err


def test_two_commands_of_one_file_stand_beside_each_other(tmp_path: Path) -> None:
    admin = four_free_ports()
    cluster = {
        "name": "t",
        "model": "m",
        "pools": [{"name": "p", "replicas": ["http://127.0.0.1:9"]}],
        "gateway": {"gateways": 2, "admin": {"port": admin}, "metrics": {"port": admin + 2}},
    }
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(cluster))
    command = [*KILOCARD, "gateway", str(path), "--port", "0", "--number"]
    running = [
        subprocess.Popen([*command, number], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for number in ("0", "1")
    ]
    try:
        for number, process in enumerate(running):
            assert process.stdout is not None
            where, orders = process.stdout.readline(), process.stdout.readline()
            assert where.startswith("http://127.0.0.1:") and ": m of 1 replicas, by least-delay" in where
            assert f"orders at http://127.0.0.1:{admin + number}," in orders
            assert f"metrics at http://127.0.0.1:{admin + 2 + number}/metrics" in orders
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(30) for process in running] == [0, 0]
        for process in running:
            process.communicate()
