"""A supervisor at work, over emulated engines: ready, rolled under load, killed, taken up again, ended."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any

import pytest

from kilocard.processes import is_running
from kilocard.supervisor.process import AtWork, supervised

SOON_S = 60.0
CLUSTER: dict[str, Any] = {
    "name": "t",
    "model": "qwen3-8b",
    "version": "v1",
    "engine": {"max_num_seqs": 16},
    "pools": [{"name": "chat", "card": "h100-sxm", "replicas": 4}],
    "gateway": {"retries": {"most": 2, "budget": 1.0}},
    "lifecycle": {
        "ready": {"every_s": 0.1, "successes": 1, "within_s": 60},
        "drain_s": 20,
        "stop_s": 2,
        "roll": {"verify_s": 0.5},
        "canary": None,
        "crashes": {"back_off_s": 0.2, "most": 3, "within_s": 30},
    },
}


@dataclass
class Load:
    """Streams, one after the other, by several threads; every one of them ends in `ends`."""

    port: int
    ends: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def ask_on(self) -> None:
        while not self._stop.is_set():
            end, told = self._ask()
            self.ends[end] += 1
            if end != "ok":
                self.faults.append(told)

    def stop(self) -> None:
        self._stop.set()

    def _ask(self) -> tuple[str, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = json.dumps({"model": "qwen3-8b", "prompt": "a b c", "max_tokens": 20, "stream": True})
        try:
            connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            return "lost", repr(error)
        finally:
            connection.close()
        if answer.status != 200:
            return "refused", content.decode()
        self.versions[answer.headers["x-model-version"]] += 1
        if b'"error"' in content:
            return "error", content[-300:].decode()
        return ("ok", "") if content.rstrip().endswith(b"data: [DONE]") else ("cut", content[-300:].decode())


@contextmanager
def under_load(running: AtWork, threads: int) -> Iterator[Load]:
    """Some requests have ended well before the block begins, and some end well after."""
    load = Load(int(running.cluster["gateway"]["port"]))
    workers = [threading.Thread(target=load.ask_on) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        running.await_that(lambda: load.ends["ok"] > 20, SOON_S)
        yield load
        before = load.ends["ok"]
        running.await_that(lambda: load.ends["ok"] > before + 20, SOON_S)
    finally:
        load.stop()
        for worker in workers:
            worker.join()


def programs(running: AtWork) -> dict[str, int]:
    """Slot → process."""
    return {name: held.kept.program_pid for name, held in running.state.held.items() if held.kept}


def versions(running: AtWork) -> set[str]:
    state = running.state
    return {state.recipes[held.slot.runs].version for held in running.engines().values() if held.slot.runs}


def has_done(running: AtWork, event: str) -> bool:
    return any(row["event"] == event for row in running.events())


@contextmanager
def up(replicas: int, **changes: Any) -> Iterator[AtWork]:
    """Nothing of it is left after the block."""
    pools = [{**CLUSTER["pools"][0], "replicas": replicas}]
    with supervised({**CLUSTER, "pools": pools, **changes}, is_emulated=True) as running:
        yield running
        pids = programs(running)
    assert not [name for name, pid in pids.items() if is_running(pid)]


@pytest.fixture(scope="module")
def running() -> Iterator[AtWork]:
    with up(4) as it:
        yield it


def test_a_roll_under_load_loses_nothing(running: AtWork) -> None:
    before = programs(running)
    with under_load(running, 6) as load:
        running.roll()
        running.await_that(lambda: has_done(running, "restart ordered"), SOON_S)
        running.await_that(lambda: running.is_ready() and not same(before, programs(running)), SOON_S)
    assert set(load.ends) == {"ok"}, load.faults
    assert programs(running)["gateway-0"] == before["gateway-0"]


def same(one: dict[str, int], other: dict[str, int]) -> set[str]:
    """Engines that run in both."""
    return {name for name in one if name.startswith("chat") and one[name] == other.get(name)}


def test_an_engine_that_is_killed_loses_its_streams_alone_and_comes_back(running: AtWork) -> None:
    with under_load(running, 6) as load:
        pid = programs(running)["chat-1"]
        os.kill(pid, signal.SIGKILL)
        running.await_that(lambda: programs(running).get("chat-1", pid) != pid, SOON_S)
        running.await_that(running.is_ready, SOON_S)
    assert set(load.ends) <= {"ok", "error"}, load.faults
    assert load.ends["error"] <= 6


def test_a_killed_supervisor_loses_nothing_and_the_next_takes_up_what_runs(running: AtWork) -> None:
    before = programs(running)
    with under_load(running, 4) as load:
        running.kill()
        ended = load.ends["ok"]
        while load.ends["ok"] < ended + 20:
            threading.Event().wait(0.05)
        running.start()
        running.await_that(lambda: has_done(running, "taken up") and running.is_ready(), SOON_S)
    assert set(load.ends) == {"ok"}, load.faults
    assert programs(running) == before


def test_a_changed_file_is_rolled_out_and_a_broken_one_is_not(running: AtWork) -> None:
    running.path.write_text("name: [")
    running.await_that(lambda: "was not taken up" in running.said, SOON_S)
    with under_load(running, 4) as load:
        running.change(version="v2")
        running.await_that(lambda: versions(running) == {"v2"} and running.is_ready(), SOON_S)
    assert set(load.ends) == {"ok"}, load.faults
    assert load.versions["v2"] > 0


CANARY = {"replicas": 1, "share": 0.3, "least_requests": 30, "within_s": 60, "slower_ratio": 1.5}


def test_a_slower_canary_is_taken_back_and_a_good_one_goes_through() -> None:
    lifecycle = {**CLUSTER["lifecycle"], "canary": CANARY}
    with up(3, lifecycle=lifecycle) as it, under_load(it, 6) as load:
        pools = it.cluster["pools"]
        it.change(version="v2", pools=[{**pools[0], "card": "l4"}])
        it.await_that(lambda: has_done(it, "returning"), SOON_S)
        taken_back = next(row for row in it.events() if row["event"] == "returning")
        assert "x the others'" in taken_back["reason"]
        it.await_that(it.is_ready, SOON_S)
        assert versions(it) == {"v1"}
        it.change(version="v3", pools=pools)
        it.await_that(lambda: versions(it) == {"v3"} and it.is_ready(), SOON_S)
    assert set(load.ends) == {"ok"}, load.faults
    assert set(load.versions) == {"v1", "v2", "v3"}


def test_settings_with_which_an_engine_dies_are_taken_back() -> None:
    with up(2) as it, under_load(it, 4) as load:
        it.change(version="v2", engine={"max_num_seqs": 16, "gpu_memory_utilization": 0.001})
        it.await_that(lambda: has_done(it, "given up") and has_done(it, "returning"), SOON_S)
        it.await_that(it.is_ready, SOON_S)
        assert versions(it) == {"v1"}
    assert set(load.ends) == {"ok"}, load.faults
