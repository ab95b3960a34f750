"""However the one who asked for an engine ends, nothing of the engine stays."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from launch_fakes import Fake, eventually, traces

from kilocard import processes
from kilocard.launch import strays

ENDS = {
    "end of the program": "sys.exit(0)",
    "an exception": "raise ValueError('a cell failed')",
    "an exit without clean-up": "os._exit(1)",
    "the kernel is restarted": "time.sleep(600)",
    "an interrupt": "time.sleep(600)",
    "a hang-up": "time.sleep(600)",
    "a killed parent": "time.sleep(600)",
}
SIGNALS = {
    "the kernel is restarted": signal.SIGTERM,
    "an interrupt": signal.SIGINT,
    "a hang-up": signal.SIGHUP,
    "a killed parent": signal.SIGKILL,
}


def started(user: subprocess.Popen[str]) -> int:
    """The engine's pid, once the user has it ready."""
    assert user.stdout
    line = user.stdout.readline()
    assert line, user.communicate()[1]
    return int(line)


@pytest.mark.parametrize("end", ENDS)
def test_no_end_leaves_an_orphan(fake: Fake, end: str) -> None:
    user = fake.user(ENDS[end])
    pid = started(user)
    guard_pid = fake.guard_pid(pid) if fake.processes() else 0
    if end in SIGNALS:
        assert len(fake.processes()) == 3
        user.send_signal(SIGNALS[end])
    assert eventually(fake.is_gone)
    assert eventually(lambda: not traces(pid, guard_pid, "http://127.0.0.1:0"))


def test_a_user_killed_while_the_engine_starts_leaves_no_orphan(fake: Fake) -> None:
    notes = fake.cache / "notes"
    fake.flags = ("--workers", "--warm-up-s", "600", "--count", str(notes))
    user = fake.user()
    assert eventually(lambda: notes.exists() and "serving" in notes.read_text())
    assert len(fake.processes()) == 3
    user.kill()
    assert eventually(fake.is_gone)


def test_a_child_forked_by_the_user_does_not_keep_the_engine(fake: Fake) -> None:
    user = fake.user("child = os.fork()\nif not child:\n    os.setsid()\ntime.sleep(5)")
    started(user)
    user.kill()
    assert eventually(fake.is_gone, 4.0)


def test_a_child_forked_by_the_user_does_not_end_the_engine(fake: Fake) -> None:
    user = fake.user(
        "child = os.fork()\n"
        "if not child:\n"
        "    sys.exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print('joined', flush=True)\n"
        "time.sleep(600)"
    )
    pid = started(user)
    assert user.stdout
    assert user.stdout.readline() == "joined\n"
    assert pid in fake.processes()


def test_a_killed_server_takes_its_children_with_it(fake: Fake) -> None:
    pid = started(fake.user())
    guard_pid = fake.guard_pid(pid)
    os.kill(pid, signal.SIGKILL)
    assert eventually(fake.is_gone)
    assert eventually(lambda: not traces(pid, guard_pid, "http://127.0.0.1:0"))


def test_what_a_killed_guard_leaves_is_swept_by_who_started_it(fake: Fake) -> None:
    pid = started(fake.user())
    guard_pid = fake.guard_pid(pid)
    os.kill(guard_pid, signal.SIGKILL)
    assert eventually(lambda: not fake.processes())
    assert eventually(lambda: not traces(pid, guard_pid, "http://127.0.0.1:0"))


def test_what_a_killed_guard_and_user_leave_is_swept_by_the_next(fake: Fake) -> None:
    user = fake.user()
    pid = started(user)
    guard_pid = fake.guard_pid(pid)
    user.send_signal(signal.SIGSTOP)
    os.kill(guard_pid, signal.SIGKILL)
    user.kill()
    assert eventually(lambda: pid not in fake.processes())
    assert len(strays.strays()) >= 2
    strays.sweep()
    assert eventually(lambda: not fake.processes())
    assert traces(pid, guard_pid, "http://127.0.0.1:0") == []


def test_a_sweep_spares_a_living_engine(fake: Fake) -> None:
    engine = fake.start()
    before = set(fake.processes())
    strays.sweep()
    assert set(fake.processes()) == before
    engine.stop()


def test_a_sweep_takes_the_folders_of_dead_guards_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strays, "temp_root", lambda: tmp_path)
    names = ("kilocard-12345678-9", "kilocard-up-9xj2kd", "kilocard-race-1", "kilocard-1-2-3")
    for name in names:
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (0, 0))
    strays.sweep()
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])


def test_what_is_shared_late_is_seen_at_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has its name before anybody maps it; and a look costs nothing where no name is new."""
    monkeypatch.setattr(processes, "SHARED_MEMORY", tmp_path)
    names = processes.SharedNames()

    def looks() -> list[bool]:
        return [names.changed() for _ in range(3)]

    (tmp_path / "psm_1").touch()
    assert looks() == [True, True, False]
    (tmp_path / "psm_2").touch()
    assert looks() == [True, True, False]
    (tmp_path / "psm_1").unlink()
    assert looks() == [True, True, False]
