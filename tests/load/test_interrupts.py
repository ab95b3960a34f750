"""An interrupt, or several, costs nobody what was measured, whenever it comes."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from kilocard.load import sweep
from kilocard.load.generate import Tally
from kilocard.load.health import LoopHealth
from kilocard.load.in_thread import run_in_thread
from kilocard.load.interrupts import interrupts
from kilocard.load.recorder import Recorder, Stage
from kilocard.load.scene import Scene
from kilocard.load.truth_process import TruthServer
from kilocard.record import Status


def interrupt(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "as it was found"
    signal.signal(signal.SIGINT, before)


def test_without_anything_to_keep_it_interrupts_as_usual() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts():
        interrupt()


def test_work_that_does_not_catch_it_ends_in_an_interrupt() -> None:
    threading.Timer(0.1, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run_in_thread(lambda: asyncio.sleep(30), lambda: None)


def test_many_in_a_row_leave_the_orderly_end_alone() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)
            ended.append("in order")

    def press() -> None:
        for _ in range(10):
            interrupt()
            time.sleep(0.002)

    threading.Timer(0.1, press).start()
    run_in_thread(work, lambda: None)
    assert ended == ["in order"]


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        (Recorder, "_show"),
        (Recorder, "_close_stage"),
        (LoopHealth, "report"),
        (Scene, "stamp"),
        (Tally, "settle"),
    ],
)
def test_around_the_end_of_the_last_level_it_loses_nothing(
    truth: TruthServer, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> None:
    original = getattr(owner, method)

    def pressed_twice(self: object, *arguments: object) -> object:
        if method != "stamp" or arguments[0].rows:  # type: ignore[attr-defined]
            interrupt()
            interrupt()
        return original(self, *arguments)

    monkeypatch.setattr(owner, method, pressed_twice)
    run = sweep(truth.url, concurrency=(2,), requests_per_level=6, output_tokens=3)
    assert len(run.requests) == 6
    assert (run.requests["status"] == Status.OK).all()


def test_between_two_levels_it_ends_the_run_before_the_next(
    truth: TruthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = Tally.settle

    def pressed(self: Tally) -> object:
        interrupt()
        time.sleep(0.1)
        return settle(self)

    monkeypatch.setattr(Tally, "settle", pressed)
    run = sweep(truth.url, concurrency=(1, 2, 4), requests_per_level=8, output_tokens=3)
    assert len(run.ok) == 8
    assert run.stamp.client["interrupted"]


def test_a_show_that_fails_costs_nothing(truth: TruthServer) -> None:
    class Broken:
        """A terminal that takes no letter of it."""

        def show(self, stage: Stage | None, ended: int) -> None:
            raise ValueError("closed")

        def stage_ended(self, stage: Stage, rows: list[dict[str, object]]) -> None:
            raise ValueError("closed")

    run = sweep(truth.url, concurrency=(1, 2), requests_per_level=4, output_tokens=3, progress=Broken())
    assert len(run.ok) == 8
