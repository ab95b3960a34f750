"""`kilocard doctor` on the wiring of a box, and its two ends of a network test, as two processes."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kilocard.cli
from kilocard import box
from kilocard.cli import doctor_network
from kilocard.cli.doctor_network import host_and_port
from kilocard.errors import KilocardError

KILOCARD = [sys.executable, "-c", "from kilocard.cli import main; main()"]
FIXTURES = Path(__file__).parents[2] / "data" / "published" / "topologies"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        kilocard.cli.main(list(arguments))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@contextmanager
def listener(*options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`kilocard doctor listen` and the port that it took."""
    command = [*KILOCARD, "doctor", "listen", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        first, second = process.stdout.readline(), process.stdout.readline()
        named = re.search(r"listening on 127\.0\.0\.1:(\d+); it has no authentication", first)
        assert named
        assert "only this machine reaches it" in second
        yield process, int(named[1])
    finally:
        process.kill()
        process.communicate()


def play(tool: str, prints: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a tool on the path that prints a file."""
    script = folder / tool
    script.write_text(f"#!/bin/sh\nexec cat '{prints}'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_the_doctor_tells_the_wiring_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "doctor", "--json", "--ranks", "1")
    wiring = json.loads(out)["topology"]
    assert set(wiring) == {"numa", "cores", "cards", "links", "nics", "findings"}
    assert wiring["cores"]["usable"] == sorted(os.sched_getaffinity(0))
    assert {"cores"} <= {finding["about"] for finding in wiring["findings"]}
    assert all(set(finding) == {"about", "found", "means", "change"} for finding in wiring["findings"])


def test_the_doctor_tells_the_links_of_cards(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play("nvidia-smi", FIXTURES / "eight-a100-in-pairs.txt", tmp_path, monkeypatch)
    _, out, _ = run(capsys, "doctor", "--json")
    wiring = json.loads(out)["topology"]
    assert [card["numa_node"] for card in wiring["cards"]] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert wiring["links"][0][:3] == ["X", "NV12", "NODE"]
    _, out, _ = run(capsys, "doctor")
    assert "islands: GPU0,1 by NV12" in out
    assert "means: the largest TP group that stays on the fast link has 2 cards" in out


def test_a_tool_that_prints_no_matrix_does_not_stop_the_doctor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("Failed to initialize NVML: \x1b]0;Driver/library version mismatch\n")
    play("nvidia-smi", tmp_path / "text", tmp_path, monkeypatch)
    code, out, _ = run(capsys, "doctor")
    assert code in (0, 1)
    assert "no matrix of cards in this text" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("script", "cards", "links"),
    [
        ("echo no driver; exit 9", "warn  cards             nvidia-smi failed (exit 9: no driver)", "exit 9"),
        ("exec /bin/sleep 60", "warn  cards             nvidia-smi gave no answer", "gave no answer"),
        (r"printf '\377\n'", "warn  cards             nvidia-smi lists no card", "no matrix of cards"),
        ("echo 'H200, [N/A], 1'", "1 x H200, memory unknown, driver 1", "no matrix of cards"),
    ],
)
def test_a_broken_driver_is_told_and_does_not_stop_the_doctor(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    script: str,
    cards: str,
    links: str,
) -> None:
    monkeypatch.setattr(box, "NVIDIA_S", 0.3 if "sleep" in script else 20.0)
    play("nvidia-smi", Path("/dev/null"), tmp_path, monkeypatch)
    asked = tmp_path / "asked"
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho >> {asked}\n{script}\n")
    code, out, _ = run(capsys, "doctor")
    assert code in (0, 1)
    assert cards in out
    assert any(links in line for line in out.splitlines() if line.startswith("links"))
    assert len(asked.read_text()) == (1 if "sleep" in script else 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nonsense",), "nonsense"),
        (("--ranks", "0"), "--ranks"),
        (("network",), "HOST:PORT"),
        (("network", "nowhere"), "'nowhere' is no HOST:PORT"),
        (("network", "127.0.0.1:0"), "no HOST:PORT"),
        (("network", "127.0.0.1:9", "--ranks", "1"), "ranks 1"),
        (("network", "127.0.0.1:9", "--streams", "99"), "99 streams"),
        (("network", "127.0.0.1:9", "--step-s", "-1"), "normal time of -1"),
        (("network", "127.0.0.1:9", "--step-s", "1e308"), "normal time of 1e+308"),
        (("network", "[::1]:9"), "[::1]:9 cannot be reached"),
        (("listen", "--host", ""), "no host to listen on"),
        (("listen", "--port", "70000"), "port 70000"),
        (("listen", "--host", "203.0.113.1"), "cannot listen on 203.0.113.1"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, "doctor", *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err


def test_two_processes_test_the_wire_between_them(capsys: pytest.CaptureFixture[str]) -> None:
    with listener() as (process, port):
        code, out, _ = run(
            capsys, "doctor", "network", f"127.0.0.1:{port}", "--json", "--ranks", "4", "--step-s", "0.5"
        )
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=30)
    report = json.loads(out)
    assert code == 0
    assert (report["measured"]["kind"], report["derived"]["kind"]) == ("measured", "derived")
    assert report["measured"]["fit"]["wire"]["bytes_per_s"] > 0
    assert report["step"] == {"ranks": 4, "hidden": 8192, "layers": 80, "batch": 32, "tokens": 2048}
    assert report["derived"]["timeout_s"] == [3, 5]
    assert {default["seconds"] for default in report["defaults"]} == {300, 600, 1800}
    assert "connections were served" in told
    assert process.returncode == 0


def test_the_test_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with listener() as (process, port):
        code, out, _ = run(capsys, "doctor", "network", f"127.0.0.1:{port}", "--streams", "1")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert code == 0
    for word in (
        "round trip",
        "1 stream",
        "fitted line",
        "replicas",
        "TP over it",
        "time-out",
        "NCCL collective: 600 s",
    ):
        assert word in out


def test_a_stranger_is_told_on_stderr_and_the_listener_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with listener() as (process, port):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\x1b[2J\r\n")
            stranger.settimeout(10)
            assert b"this is a network test" in stranger.recv(1000)
        assert process.stderr
        err = process.stderr.readline()
        with socket.create_connection(("127.0.0.1", port)):
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    assert "speaks something else" in err
    assert "\x1b" not in err


def test_a_line_of_a_thread_is_written_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    class Written(io.StringIO):
        def write(self, text: str) -> int:
            pieces.append(text)
            return len(text)

    pieces: list[str] = []
    monkeypatch.setattr(sys, "stderr", Written())
    doctor_network._say("10.0.0.9 was let go")
    assert pieces == ["10.0.0.9 was let go\n"]


def test_nobody_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    code, _, err = run(capsys, "doctor", "network", f"127.0.0.1:{port}")
    assert code == 2
    assert err.count("\n") == 1
    assert "kilocard doctor listen" in err


def test_addresses() -> None:
    assert host_and_port("10.0.0.2:7790") == ("10.0.0.2", 7790)
    assert host_and_port("[fd00::2]:1") == ("fd00::2", 1)
    for wrong in (
        "",
        ":1",
        "host",
        "host:",
        "host:65536",
        "a b:1",
        "fd00::2:1",
        "host:1\n",
        "x" * 300 + ":1",
    ):
        with pytest.raises(KilocardError):
            host_and_port(wrong)
