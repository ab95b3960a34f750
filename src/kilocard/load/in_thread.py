"""A coroutine on an event loop in a thread of its own, so that it also works inside a notebook's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import uvloop

from kilocard.load.interrupts import interrupts

REFRESH_S = 0.5


@dataclass(slots=True)
class _Work:
    """The thread's side: the coroutine, how to cancel it once, and how it ended."""

    main: Callable[[], Coroutine[Any, Any, None]]
    done: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None
    _asked_to_end: bool = False
    _cancelled: bool = False
    _started: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None

    def run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._supervised())
        except BaseException as error:
            self.failure = error
        finally:
            self.done.set()

    def cancel(self) -> None:
        """From a signal handler, and perhaps from a second one in the midst of the first."""
        self._asked_to_end = True
        if self._started is not None:
            with suppress(RuntimeError):  # the loop is closed: the work had ended
                self._started[0].call_soon_threadsafe(self._cancel_once)

    def _cancel_once(self) -> None:
        """In the loop's thread: a second cancellation would cut short the orderly end."""
        if self._started is not None and not self._cancelled:
            self._cancelled = True
            self._started[1].cancel()

    async def _supervised(self) -> None:
        task = asyncio.create_task(self.main())
        self._started = asyncio.get_running_loop(), task
        if self._asked_to_end:
            self._cancel_once()
        await task


def run_in_thread(main: Callable[[], Coroutine[Any, Any, None]], refresh: Callable[[], None]) -> None:
    """Run `main` to its end; an interrupt of the calling thread cancels it.

    It may catch that to end in order; else this raises KeyboardInterrupt.
    """
    work = _Work(main)
    with interrupts() as stop:
        stop.cancel = work.cancel
        if stop.pending:
            work.cancel()
        try:
            thread = threading.Thread(target=work.run, name="kilocard-load", daemon=True)
            thread.start()
            while not work.done.wait(REFRESH_S):
                refresh()
            thread.join()
        finally:
            stop.cancel = None
    if isinstance(work.failure, asyncio.CancelledError):
        raise KeyboardInterrupt
    if work.failure is not None:
        raise work.failure
