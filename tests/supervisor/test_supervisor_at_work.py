"""A supervisor at work, over emulated engines: ready, rolled under load, killed, taken up again, ended.

One cluster for all of them: each test leaves it ready, whatever version it runs by then.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
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
    "pools": [{"name": "chat", "card": "h100-sxm", "replicas": 2}],
    "gateway": {"retries": {"most": 2, "budget": 1.0}},
    "lifecycle": {
        "ready": {"every_s": 0.1, "successes": 1, "within_s": 60},
        "drain_s": 20,
        "stop_s": 2,
        "roll": {"verify_s": 0.2},
        "canary": None,
        "crashes": {"back_off_s": 0.2, "most": 3, "within_s": 60},
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
        body = json.dumps({"model": "qwen3-8b", "prompt": "a b c", "max_tokens": 8, "stream": True})
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


@contextmanager
def noted(running: AtWork) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Asks for events of a name since the block began."""
    before = len(running.events())
    yield lambda event: [row for row in running.events()[before:] if row["event"] == event]


@pytest.fixture(scope="module")
def running() -> Iterator[AtWork]:
    with supervised(CLUSTER, is_emulated=True) as it:
        yield it
        pids = programs(it)
    assert not [name for name, pid in pids.items() if is_running(pid)]


def test_a_roll_under_load_loses_nothing(running: AtWork) -> None:
    before = programs(running)
    with under_load(running, 4) as load, noted(running) as events:
        running.roll()
        running.await_that(lambda: events("restart ordered"), SOON_S)
        running.await_that(lambda: running.is_ready() and not same(before, programs(running)), SOON_S)
    assert set(load.ends) == {"ok"}, load.faults
    assert programs(running)["gateway-0"] == before["gateway-0"]


def same(one: dict[str, int], other: dict[str, int]) -> set[str]:
    """Engines that run in both."""
    return {name for name in one if name.startswith("chat") and one[name] == other.get(name)}


def test_an_engine_that_is_killed_loses_its_streams_alone_and_comes_back(running: AtWork) -> None:
    with under_load(running, 4) as load:
        pid = programs(running)["chat-1"]
        os.kill(pid, signal.SIGKILL)
        running.await_that(lambda: programs(running).get("chat-1", pid) != pid, SOON_S)
        running.await_that(running.is_ready, SOON_S)
    assert set(load.ends) <= {"ok", "error"}, load.faults
    assert load.ends["error"] <= 4
    [died] = [it for it in running.events() if it.get("slot") == "chat-1" and it.get("reason")]
    assert died["reason"].startswith("it was killed with SIGKILL")


def test_a_killed_supervisor_loses_nothing_and_the_next_takes_up_what_runs(running: AtWork) -> None:
    before = programs(running)
    with under_load(running, 4) as load, noted(running) as events:
        running.kill()
        ended = load.ends["ok"]
        while load.ends["ok"] < ended + 20:
            threading.Event().wait(0.05)
        running.start()
        running.await_that(lambda: events("taken up") and running.is_ready(), SOON_S)
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


CANARY = {"replicas": 1, "share": 0.3, "least_requests": 15, "within_s": 60, "slower_ratio": 1.5}


def test_a_slower_canary_is_taken_back_and_a_good_one_goes_through(running: AtWork) -> None:
    pools, [before] = running.cluster["pools"], versions(running)
    with under_load(running, 4) as load, noted(running) as events:
        lifecycle = {**CLUSTER["lifecycle"], "canary": CANARY}
        running.change(version="slower", pools=[{**pools[0], "card": "l4"}], lifecycle=lifecycle)
        running.await_that(lambda: events("returning"), SOON_S)
        assert "x the others'" in events("returning")[0]["reason"]
        running.await_that(running.is_ready, SOON_S)
        assert versions(running) == {before}
        running.change(version="as-fast", pools=pools)
        running.await_that(lambda: versions(running) == {"as-fast"} and running.is_ready(), SOON_S)
    assert set(load.ends) == {"ok"}, load.faults
    assert set(load.versions) == {before, "slower", "as-fast"}
    running.change(lifecycle=CLUSTER["lifecycle"])


def test_settings_with_which_an_engine_dies_are_taken_back(running: AtWork) -> None:
    [before], engine = versions(running), running.cluster["engine"]
    with under_load(running, 4) as load, noted(running) as events:
        lifecycle = {**CLUSTER["lifecycle"], "crashes": {"most": 1}}
        too_little = {**engine, "gpu_memory_utilization": 0.001}
        running.change(version="dies", engine=too_little, lifecycle=lifecycle)
        running.await_that(lambda: events("given up") and events("returning"), SOON_S)
        running.await_that(running.is_ready, SOON_S)
        assert versions(running) == {before}
    assert set(load.ends) == {"ok"}, load.faults
    assert "leaves no KV cache" in events("given up")[0]["reason"]
    running.change(version=before, engine=engine, lifecycle=CLUSTER["lifecycle"])
