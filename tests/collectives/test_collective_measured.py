"""Collectives between real processes of this box: measured, killed, hung, refused; nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kilocard.collectives import Measured, Operation, SizeTime, measure
from kilocard.collectives.work import SIZES_BYTES, a_round, checked_sizes
from kilocard.errors import KilocardError
from kilocard.processes import descendants, is_running
from kilocard.record import Kind

SMALL = (1024, 65_536)
LONG_S = 300.0


def workers(root: int | None = None) -> list[int]:
    """The ranks below a process, in the order of their ranks."""
    found = []
    for pid in descendants(root or os.getpid()):
        arguments = read(f"/proc/{pid}/cmdline").split("\0")
        if "kilocard.collectives.worker" in arguments:
            found.append((json.loads(arguments[-2])["rank"], pid))
    return [pid for _, pid in sorted(found)]


def read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def met(pid: int) -> bool:
    """Whether a rank has found the others: gloo has its threads."""
    tasks = Path(f"/proc/{pid}/task")
    return tasks.exists() and any("gloo" in read(f"{task}/comm") for task in tasks.iterdir())


def wait_for(is_true: Callable[[], bool], limit_s: float = 60) -> bool:
    until_s = time.monotonic() + limit_s
    while not is_true() and time.monotonic() < until_s:
        time.sleep(0.05)
    return is_true()


def at_work(root: int | None = None) -> bool:
    return len(workers(root)) == 2 and all(met(pid) for pid in workers(root))


def once_at_work(do: Callable[[list[int]], None]) -> None:
    def watch() -> None:
        if wait_for(at_work):
            do(workers())

    threading.Thread(target=watch, daemon=True).start()


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    yield
    assert not workers()


@pytest.mark.parametrize("operation", Operation)
def test_two_ranks_are_measured(operation: Operation) -> None:
    found = measure(2, SMALL, operation=operation, budget_s=0.1)
    assert found.sizes_bytes == list(SMALL)
    assert all(it.n >= 3 * a_round(it.size_bytes) and it.seconds > 0 for it in found.times)
    assert found.moved_bytes == [operation.moved_share(2) * size for size in SMALL]
    assert found.copy_bytes_per_s > 0 and found.stamp.kind is Kind.MEASURED
    assert not found.pinned
    assert "gloo" in found.stamp.caption and found.stamp.box["name"]


@pytest.mark.two_ranks
def test_a_pinned_rank_keeps_its_core() -> None:
    kept: list[set[int]] = []
    once_at_work(lambda pids: kept.extend(os.sched_getaffinity(pid) for pid in pids))
    assert measure(2, SMALL, pin=True, budget_s=1).pinned
    assert [len(cores) for cores in kept] == [1, 1] and kept[0] != kept[1]


def test_more_ranks_than_cores_are_not_pinned() -> None:
    ranks = len(os.sched_getaffinity(0)) + 1
    with pytest.raises(KilocardError, match=f"{ranks} ranks cannot have one of"):
        measure(ranks, (960 * ranks,), pin=True)


def test_more_ranks_than_cores_share_them() -> None:
    found = measure(3, (12_288,), budget_s=0.1)
    assert found.moved_bytes == [pytest.approx(4 / 3 * 12_288)]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_killed_in_mid_run_is_named(rank: int) -> None:
    once_at_work(lambda pids: os.kill(pids[rank], signal.SIGKILL))
    with pytest.raises(KilocardError, match=f"rank {rank} of 2 was killed in mid-run by SIGKILL") as told:
        measure(2, SMALL, budget_s=LONG_S, limit_s=LONG_S)
    assert "\n" not in str(told.value)


def test_a_rank_that_stands_still_ends_at_the_limit() -> None:
    once_at_work(lambda pids: os.kill(pids[1], signal.SIGSTOP))
    with pytest.raises(KilocardError, match="no end of allreduce between 2 ranks within 12 s"):
        measure(2, SMALL, budget_s=LONG_S, limit_s=12)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_the_ranks_die_with_who_asked(end: signal.Signals, tmp_path: Path) -> None:
    code = f"from kilocard.collectives import measure; measure(2, {SMALL}, budget_s=300, limit_s=300)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    user = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, env=environment)
    assert wait_for(lambda: at_work(user.pid))
    pids = workers(user.pid)
    user.send_signal(end)
    user.wait(30)
    assert wait_for(lambda: not any(is_running(pid) for pid in pids), 10)
    assert not list(tmp_path.iterdir())


def test_a_rank_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_DEVICE_TRANSPORT", "pigeon")
    with pytest.raises(KilocardError, match=r"rank [01] of 2 failed \(.+\): nothing was measured"):
        measure(2, SMALL, limit_s=60)


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kilocard.collectives.measuring.find_spec", lambda name: None)
    with pytest.raises(KilocardError, match="torch is not installed here"):
        measure()


@pytest.mark.parametrize(
    ("ranks", "sizes", "said"),
    [
        (1, SMALL, "1 ranks"),
        (True, SMALL, "True ranks"),
        (65, SMALL, "65 ranks"),
        (2, (), "no sizes"),
        (2, (0,), "a message of 0 bytes"),
        (2, (1028,), "multiples of 8 bytes"),
        (2, (2**31,), "up to 1,073,741,824"),
        (2, (1024.0,), "a message of 1024.0 bytes"),
    ],
)
def test_what_cannot_be_measured_is_refused(ranks: int, sizes: tuple[int, ...], said: str) -> None:
    with pytest.raises(KilocardError, match=said):
        measure(ranks, sizes)


@pytest.mark.parametrize("sizes", [8, None])
def test_sizes_that_are_no_list_are_refused(sizes: object) -> None:
    with pytest.raises(KilocardError, match="give a list of sizes"):
        measure(2, sizes)  # type: ignore[arg-type]


def test_sizes_may_be_told_one_by_one() -> None:
    assert checked_sizes((size for size in (65_536, 1024)), 2) == SMALL


@pytest.mark.parametrize("name", ["budget_s", "limit_s"])
@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1, "x", None, True, 1e9])
def test_a_time_that_is_none_is_refused_at_once(name: str, seconds: object) -> None:
    with pytest.raises(KilocardError, match=f"{name} .+: give seconds from"):
        measure(2, SMALL, **{name: seconds})  # type: ignore[arg-type]


def test_without_a_folder_to_write_in_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(KilocardError, match=r"no place for what the ranks say \(.+TMPDIR"):
        measure(2, SMALL)
    assert not workers()


def test_an_unknown_collective_gets_the_list() -> None:
    with pytest.raises(KilocardError, match="known: allreduce, send, all-to-all"):
        measure(2, SMALL, operation="broadcast")


def test_small_messages_are_repeated_more_than_large_ones() -> None:
    rounds = [a_round(size) for size in SIZES_BYTES]
    assert rounds == sorted(rounds, reverse=True) and rounds[0] > rounds[-1] >= 2


def test_a_median_outside_its_quartiles_is_none() -> None:
    with pytest.raises(KilocardError, match="is no measured time"):
        SizeTime(1024, seconds=1.0, n=9, p25_s=2.0, p75_s=3.0)
    with pytest.raises(KilocardError, match="2 ranks or more"):
        Measured(Operation.SEND, 1, (), 1.0, True, 1.0, stamp=None)  # type: ignore[arg-type]
