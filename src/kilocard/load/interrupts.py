"""Ctrl-C and SIGTERM while a run is measured: they end it in order, and cost nobody what was measured."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class Interrupts:
    """A signal handler: it cancels what runs on an event loop, and otherwise raises KeyboardInterrupt.

    Once there is something to keep, it raises nothing any more; what is begun next is told by `pending`.
    """

    keeping: bool = False
    pending: bool = False
    cancel: Callable[[], None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Called by Python in the main thread, between any two of its instructions."""
        if self.cancel is not None:
            self.cancel()
        elif self.keeping:
            self.pending = True
        else:
            raise KeyboardInterrupt


@contextmanager
def interrupts(*signals: signal.Signals) -> Iterator[Interrupts]:
    """The handler in force, or else one for this block; without `signals`, of SIGINT if that interrupts."""
    current = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not (signals or callable(current)):
        yield Interrupts()
        return
    if isinstance(current, Interrupts):
        yield current
        return
    ours = Interrupts()
    before = [(number, signal.signal(number, ours)) for number in signals or (signal.SIGINT,)]
    try:
        yield ours
    finally:
        for number, handler in before:
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
