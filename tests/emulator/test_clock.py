"""Virtual time, and a timer finer than the event loop's."""

import asyncio
from time import perf_counter

import pytest
import uvloop

from kilocard.emulator.clock import Clock, Timer
from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS
from kilocard.errors import KilocardError


@pytest.mark.parametrize("speed", [0, -1, float("nan"), 1e9])
def test_a_speed_that_cannot_be_is_refused(speed: float) -> None:
    with pytest.raises(KilocardError, match="speed"):
        Clock(speed)


def test_virtual_time_runs_by_its_speed() -> None:
    clock = Clock(50)
    moment = perf_counter()
    assert clock.at_ps(moment + 1) - clock.at_ps(moment) == pytest.approx(50 * PICOSECONDS)
    assert clock.moment(clock.at_ps(moment)) == pytest.approx(moment, abs=1e-6)


async def lateness(timer_count: int, waits_s: list[float]) -> list[float]:
    """How late each time is called, in seconds; never early."""
    clock, late, done = Clock(), [], asyncio.Event()
    due_ps = 0

    def called() -> None:
        late.append((clock.now_ps() - due_ps) / PICOSECONDS)
        done.set()

    timer = Timer(clock, called)
    for wait_s in waits_s:
        done.clear()
        due_ps = clock.now_ps() + round(wait_s * PICOSECONDS)
        timer.set(NEVER_PS)
        timer.set(due_ps)
        await done.wait()
    timer.close()
    return late


@pytest.mark.parametrize("fine", [True, False])
def test_a_timer_is_never_early_and_seldom_late(fine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fine:
        monkeypatch.setattr("kilocard.emulator.clock._libc", None)
    late = uvloop.run(lateness(1, [0.0, 0.0004, 0.0017, 0.003, 0.0101] * 6))
    least, middle = min(late), sorted(late)[len(late) // 2]
    assert least > (0 if fine else -0.001)
    assert middle < (0.001 if fine else 0.003)


def test_a_timer_called_off_does_not_call() -> None:
    async def wait() -> list[int]:
        clock, calls = Clock(), list[int]()
        timer = Timer(clock, lambda: calls.append(1))
        timer.set(clock.now_ps() + 10**10)
        timer.set(NEVER_PS)
        await asyncio.sleep(0.03)
        timer.close()
        return calls

    assert uvloop.run(wait()) == []
