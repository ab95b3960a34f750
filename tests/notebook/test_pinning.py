"""Processes beside each other: where they may run, what they are given, and that none stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilocard.errors import KilocardError
from kilocard.notebook import pinning
from kilocard.notebook.pinning import Beside, Loop, Place, beside, on_cores, placements, two_cores
from kilocard.processes import descendants, is_running
from kilocard.topology import Host, NumaNode, read_host

ONE = read_host().cores[0]


def workers(root: int | None = None) -> list[int]:
    return [pid for pid in descendants(root or os.getpid()) if "pinning_worker" in command(pid)]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def wait_for_workers(root: int | None = None) -> list[int]:
    until_s = time.monotonic() + 60
    while not (found := workers(root)) and time.monotonic() < until_s:
        time.sleep(0.02)
    return found


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    yield
    assert not workers()


def loop(steps_s: list[float], place: Place | None = None, cpu_share: float = 1.0) -> Loop:
    return Loop(place or Place((0,)), tuple(steps_s), cpu_share, (0,))


def test_two_on_one_core_share_its_time_and_stay_there() -> None:
    it = beside({"both": (Place((ONE,)), Place((ONE,)))}, 0.4, 0)["both"]
    assert [set(loop.seen_on) for loop in it.loops] == [{ONE}, {ONE}]
    assert all(loop.steps_s and loop.cpu_share < 1.1 for loop in it.loops)
    assert it.cpu_share < 1.8  # the last step of one may be alone


def test_a_busy_neighbour_works_and_is_never_the_slowest() -> None:
    it = beside({"it": (Place((ONE,)), Place((ONE,), busy=True))}, 0.2, 0)["it"]
    assert it.loops[1].steps_s and not it.slowest.place.busy


def test_memory_may_be_touched_on_another_core_first() -> None:
    last = read_host().cores[-1]
    it = beside({"it": (Place((ONE,), memory_of=(last,)),)}, 0.05, 0)["it"]
    assert it.slowest.seen_on == (ONE,)


def test_a_core_that_is_not_there_is_told_in_one_line() -> None:
    with pytest.raises(KilocardError, match=r"a process on core 60000 told nothing \(OSError.*usable cores"):
        beside({"it": (Place((60_000,)),)}, 0.05)


def test_a_killed_process_is_told_and_the_other_ends_with_it() -> None:
    def kill() -> None:
        os.kill(wait_for_workers()[0], signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    with pytest.raises(KilocardError, match="told nothing"):
        beside({"it": (Place((ONE,)), Place((ONE,)))}, 30)


def test_they_end_with_the_process_that_started_them() -> None:
    program = (
        "from kilocard.notebook.pinning import *\n"
        f"beside({{'it': (Place(({ONE},)), Place(({ONE},), busy=True))}}, 60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    try:
        found = wait_for_workers(parent.pid)
        assert found
    finally:
        parent.kill()
        parent.wait()
    until_s = time.monotonic() + 30
    while any(map(is_running, found)) and time.monotonic() < until_s:
        time.sleep(0.02)
    assert not any(map(is_running, found))


def test_one_that_never_gets_ready_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinning, "LIMIT_S", 0.0)
    with pytest.raises(KilocardError, match="told nothing"):
        beside({"it": (Place((ONE,)),)}, 0.01)


@pytest.mark.parametrize("seconds", [0, -1, 61, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(KilocardError, match=r"give 0\.01 to 60"):
        beside({}, seconds)


def test_a_group_goes_at_the_pace_of_its_slowest_reader() -> None:
    it = Beside((loop([0.1, 0.1]), loop([0.2, 0.3, 0.4]), loop([9.0], Place((0,), busy=True))))
    assert it.slowest.steps_per_s == pytest.approx(3 / 0.9)
    assert it.step_s == 0.3 and it.cpu_share == 3 and it.on == "0 | 0 | 0"


def test_what_others_took_is_told_of_the_cores_that_could_be_used() -> None:
    one, both = Place((0,)), Place((0, 1))
    assert Beside((loop([1], one, 0.4), loop([1], one, 0.4))).taken_share == pytest.approx(0.2)
    assert Beside((loop([1], both, 0.5),)).taken_share == pytest.approx(0.5)
    assert Beside((loop([1], both, 0.6), loop([1], both, 0.6))).taken_share == pytest.approx(0.4)
    assert Beside((loop([1], one, 0.6), loop([1], one, 0.6))).taken_share == 0


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_what_is_tried_uses_cores_of_the_box_two_of_one_node(counts: list[int]) -> None:
    starts = [sum(counts[:at]) for at in range(len(counts))]
    ranges = zip(starts, counts, strict=True)
    nodes = tuple(NumaNode(at, tuple(range(a, a + n))) for at, (a, n) in enumerate(ranges))
    host = Host(tuple(range(sum(counts))), nodes)
    first, second = two_cores(host)
    assert any({first, second} <= set(node.cores) for node in nodes)
    assert (first != second) == (max(counts) > 1)
    tried = placements(host)
    assert {core for places in tried.values() for it in places for core in it.cores} <= set(host.cores)
    assert ("one, its memory on the other node" in tried) == (len(counts) > 1)


def test_what_was_disturbed_is_tried_again_and_the_calmest_try_counts(monkeypatch) -> None:
    shares = iter([0.99, 0.5, 0.4, 0.98])
    monkeypatch.setattr(pinning, "_at_once", lambda places, _: (loop([1], places[0], next(shares)),))
    found = beside({"calm": (Place((0,)),), "disturbed": (Place((0,)),)}, 0.01)
    assert [it.cpu_share for it in found.values()] == [0.99, 0.98]


def test_without_a_budget_each_is_tried_once(monkeypatch) -> None:
    shares = iter([0.5])
    monkeypatch.setattr(pinning, "_at_once", lambda places, _: (loop([1], places[0], next(shares)),))
    assert beside({"it": (Place((0,)),)}, 0.01, budget_s=0)["it"].cpu_share == 0.5


def test_threads_of_one_core_are_tried_where_there_are_some() -> None:
    host = Host((0, 1, 2, 3), siblings=((0, 2), (1, 3)))
    assert two_cores(host) == (0, 1)
    assert placements(host)["two on the threads of one core"] == (Place((0,)), Place((2,)))


def test_a_threads_cores_are_given_back() -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), on_cores([ONE]):
        assert os.sched_getaffinity(0) == {ONE}
        1 / 0  # noqa: B018
    assert os.sched_getaffinity(0) == before
