"""Equal specs share one engine; it goes with its last user."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from launch_fakes import Fake, eventually

from kilocard.errors import KilocardError
from kilocard.launch import share
from kilocard.launch.command import Command


def starts_of(notes: Path) -> list[str]:
    """The pids of the engines that wrote these notes."""
    return [line for line in notes.read_text().split() if line.isdigit()]


def test_a_second_user_joins_and_the_last_one_stops_it(fake: Fake) -> None:
    first = fake.start()
    second = fake.start()
    assert second.url == first.url
    assert second.is_shared
    assert "shared" in second.said
    assert second.started_in_s == first.started_in_s == pytest.approx(first.ready_s, abs=0.01)
    first.stop()
    assert second.complete("still") == " Paris"
    second.stop()
    assert fake.is_gone()


def test_an_engine_outlives_the_killed_process_that_started_it(fake: Fake) -> None:
    user = fake.user()
    assert user.stdout
    user.stdout.readline()
    engine = fake.start()
    assert engine.is_shared
    user.send_signal(signal.SIGKILL)
    user.wait()
    assert engine.complete("still") == " Paris"
    engine.stop()
    assert fake.is_gone()


def test_many_at_once_start_one_engine(fake: Fake) -> None:
    starts = fake.cache / "starts"
    fake.flags = ("--count", str(starts), "--warm-up-s", "0.3")
    users = [fake.user("time.sleep(0.3)") for _ in range(4)]
    pids = {user.communicate(timeout=30)[0].strip() for user in users}
    assert list(pids) == starts_of(starts)
    assert eventually(fake.is_gone)


def test_who_comes_while_it_stops_waits_and_gets_a_new_one(fake: Fake) -> None:
    starts = fake.cache / "starts"
    fake.flags = ("--count", str(starts), "--drain-s", "0.5")
    fake.user("os._exit(0)").wait()
    assert eventually(lambda: "stopping" in starts.read_text())
    engine = fake.start()
    assert engine.complete("again") == " Paris"
    assert len(starts_of(starts)) == 2
    engine.stop()


def test_another_command_gets_another_engine(fake: Fake) -> None:
    one = fake.start()
    fake.flags = ("--drain-s", "0")
    other = fake.start()
    assert other.url != one.url
    assert not other.is_shared
    one.stop()
    other.stop()


def test_a_digest_tells_commands_apart() -> None:
    plain = Command(("python", "serve"))
    assert plain.digest == Command(("python", "serve")).digest
    assert plain.digest != Command(("python", "serve"), {"A": "1"}).digest
    assert plain.digest != Command(("python serve",)).digest


@pytest.mark.parametrize("log", ["/proc/logs/engine.log", "/dev/full", "/dev/null/logs/engine.log"])
def test_a_log_that_cannot_be_written_is_one_line(log: str) -> None:
    with pytest.raises(KilocardError, match=rf"log {log} cannot be written \(.*KILOCARD_CACHE"):
        share.begin_log(Path(log))


@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_a_span_without_end_is_refused(fake: Fake, seconds: float) -> None:
    with pytest.raises(KilocardError, match=f"drain_s {seconds} is no span of time"):
        fake.start(drain_s=seconds)
