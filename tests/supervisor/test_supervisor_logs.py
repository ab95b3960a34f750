"""What is written stays within bounds, and nothing of it is lost on the way."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from kilocard.gateway.process import AtWork, gateway_over
from kilocard.launch.keep import before
from kilocard.supervisor import logs
from kilocard.supervisor.home import Home
from kilocard.supervisor.logs import LOOK_EVERY_S, Logs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """With bounds that a test can reach."""
    monkeypatch.setattr(logs, "MOST_LOG_BYTES", 1000)
    monkeypatch.setattr(logs, "MOST_ACCESS_BYTES", 1000)
    (tmp_path / "logs").mkdir()
    return Home(tmp_path)


def test_a_log_is_cut_under_its_writer(home: Home) -> None:
    log, its = home.log_of("chat-0"), Logs(home)
    with log.open("ab", buffering=0) as writer:
        for number in range(1, 4):
            writer.write(b"%d" % number * 1001)
            its.bound([], number * LOOK_EVERY_S)
        writer.write(b"after")
    assert log.read_bytes() == b"after" and before(log).read_bytes() == b"3" * 1001


def test_it_is_looked_at_now_and_then(home: Home) -> None:
    its = Logs(home)
    its.bound([], LOOK_EVERY_S)
    home.log_of("chat-0").write_bytes(b"1" * 1001)
    its.bound([], 1.9 * LOOK_EVERY_S)
    assert not before(home.log_of("chat-0")).exists()
    its.bound([], 2 * LOOK_EVERY_S)
    assert before(home.log_of("chat-0")).exists()


def test_a_gateway_that_is_gone_does_not_matter(home: Home) -> None:
    home.access_log.write_bytes(b"1" * 1001)
    Logs(home).bound([2**22 + 1], LOOK_EVERY_S)
    assert before(home.access_log).exists() and not home.access_log.exists()


def refused(gateway: AtWork, number: int) -> None:
    shown = {"X-Request-Id": f"n-{number}", "Content-Type": "application/json"}
    try:
        urlopen(Request(f"{gateway.url}/v1/completions", b"x", shown), timeout=30)
    except HTTPError as error:
        assert error.code == 400


def test_the_access_log_is_moved_away_and_every_request_is_in_one_of_both(home: Home) -> None:
    pool = {"name": "p", "replicas": ["http://127.0.0.1:9"]}
    section: dict[str, Any] = {"access_log": {"path": str(home.access_log)}}
    cluster = {"name": "t", "model": "m", "pools": [pool], "gateway": section}
    with gateway_over(cluster, awaits_models=False) as gateway:
        for number in range(10):
            refused(gateway, number)
        gateway.process.send_signal(signal.SIGUSR1)  # what it has kept is written before
        while home.access_log.stat().st_size < 1000:
            pass
        Logs(home).bound([gateway.process.pid], LOOK_EVERY_S)
        for number in range(10, 20):
            refused(gateway, number)
    rows = [json.loads(line) for log in (before(home.access_log), home.access_log) for line in log.open()]
    told = {row["request_id"] for row in rows if "request_id" in row}
    assert told == {f"n-{number}" for number in range(20)}
    assert before(home.access_log).stat().st_size and home.access_log.stat().st_size
