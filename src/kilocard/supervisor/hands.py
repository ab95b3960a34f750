"""Starts and stops programs without holding the supervisor up: to verify weights may take minutes."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from kilocard.errors import KilocardError
from kilocard.launch.keep import Kept
from kilocard.lifecycle import Phase
from kilocard.specs.cluster import ClusterSpec
from kilocard.supervisor.starting import Starter
from kilocard.supervisor.state import Held, State

THREADS = 8


class Hands:
    """What is being started is told by the name of its slot."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kilocard-start")
        self._begun: dict[str, Future[Kept]] = {}

    def start(self, spec: ClusterSpec, state: State, held: Held) -> None:
        """Begin to start what the slot runs now."""
        held.kept, held.successes = None, 0
        self._begun[held.slot.name] = self._threads.submit(self._starter.start, spec, state, held)

    def stop(self, held: Held) -> None:
        """SIGTERM, now or as soon as there is somebody to hear it."""
        if held.kept:
            held.kept.stop()

    def kill(self, held: Held) -> None:
        """What hears no SIGTERM."""
        if held.kept:
            held.kept.kill()

    def is_alive(self, held: Held) -> bool:
        """Whether it runs, or is being started."""
        return held.slot.name in self._begun or (held.kept is not None and held.kept.is_alive)

    def take(self, held: Held) -> str:
        """What has been started since is the slot's; the fault where it could not be."""
        begun = self._begun.get(held.slot.name)
        if begun is None or not begun.done():
            return ""
        del self._begun[held.slot.name]
        try:
            held.kept = begun.result()
        except KilocardError as error:
            return str(error)
        except Exception as error:  # whatever it is, the other slots go on
            return f"{type(error).__name__}: {error}"
        if held.slot.phase is Phase.STOPPING:
            held.kept.stop()
        return ""

    def stop_reading(self) -> None:
        """What is to be started is wanted no more."""
        self._starter.verifier.stop()

    def close(self) -> None:
        """Begin nothing more; what is being started goes on."""
        self._threads.shutdown(wait=True)
