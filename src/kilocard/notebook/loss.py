"""One of several engines killed while all of them answer: who loses what, and who knows when."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pandas import DataFrame

from kilocard.errors import KilocardError
from kilocard.launch import Engine, EngineError
from kilocard.notebook.replicas import Load, loaded, on_one_clock, origin_s
from kilocard.record import Run, Status

LOOK_S = 0.002
MOST_WAIT_S = 30.0
ENOUGH = 20
"""Times as many requests as the others get, so that the victim's load outlasts it."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One of several engines killed under load; times are seconds after the kill, but for `killed_at_s`."""

    runs: tuple[Run, ...]
    victim: int
    killed_at_s: float
    """On the runs' clock."""
    client_knew_s: float
    """Until its load generator had given it up."""
    owner_knew_s: float
    """Until the process that started it said so."""
    said: str

    @property
    def lost(self) -> Run:
        """The victim's run."""
        return self.runs[self.victim]

    @property
    def survivors(self) -> tuple[Run, ...]:
        """The runs of the others."""
        return tuple(run for place, run in enumerate(self.runs) if place != self.victim)

    @property
    def cut(self) -> int:
        """Answers of the victim that had begun, and broke off."""
        return len(self._halves)

    @property
    def unanswered(self) -> int:
        """Requests to the victim without a token: in its line, in its last moment, or at a closed port."""
        return len(self.lost.requests) - len(self.lost.ok) - self.cut

    @property
    def tokens_thrown_away(self) -> int:
        """Tokens that readers had seen of answers that broke off."""
        return int(self._halves["chunks"].sum())

    @property
    def _halves(self) -> DataFrame:
        rows = self.lost.requests
        return rows[(rows["status"] == Status.LOST) & (rows["chunks"] > 0)]

    @property
    def counted_whole(self) -> bool:
        """Whether every answer that counts as one has all of its tokens."""
        return all((run.ok["output_tokens"] == run.ok["max_tokens"]).all() for run in self.runs)


def lose_one(engines: Sequence[Engine], load: Load, after_s: float, *, victim: int = -1) -> Loss:
    """Load every engine, and kill one of them with SIGKILL after so many seconds.

    The victim gets more requests than it can answer by then, so that its load lasts until its death.
    """
    victim %= len(engines)
    pid = next(iter(_ranks(engines[victim]).values()))
    loads = [replace(load, requests=ENOUGH * load.requests) if place == victim else load
             for place in range(len(engines))]  # fmt: skip
    with ThreadPoolExecutor(len(engines), thread_name_prefix="kilocard-copies") as threads:
        began = time.perf_counter()
        begun = [
            threads.submit(_timed, engine, its, place)
            for place, (engine, its) in enumerate(zip(engines, loads, strict=True))
        ]
        time.sleep(max(0.0, after_s - (time.perf_counter() - began)))
        os.kill(pid, signal.SIGKILL)
        killed, killed_unix_s = time.perf_counter(), time.time()
        said = _last_word(engines[victim])
        owner_knew_s = time.perf_counter() - killed
        ended = [future.result() for future in begun]
    runs = [run for run, _ in ended]
    return Loss(
        tuple(on_one_clock(runs)),
        victim,
        killed_unix_s - origin_s(runs),
        ended[victim][1] - killed,
        owner_knew_s,
        said,
    )


def _ranks(engine: Engine) -> dict[str, int]:
    if engine.is_shared:
        raise KilocardError(f"{engine.url} has other users: kill an engine that was started here")
    return engine.ranks()


def _timed(engine: Engine, load: Load, seed: int) -> tuple[Run, float]:
    run = loaded(engine, load, seed=1000 + seed)
    return run, time.perf_counter()


def _last_word(engine: Engine) -> str:
    """What is told of an engine's death, once it is known; without the place of its log."""
    until = time.perf_counter() + MOST_WAIT_S
    while time.perf_counter() < until:
        try:
            engine.raise_if_dead("died")
        except EngineError as error:
            head, log, _ = str(error).partition("; log: ")
            return f"{head})" if log else head
        time.sleep(LOOK_S)
    raise KilocardError(f"{engine.url} was killed {MOST_WAIT_S:.0f} s ago, and nobody knows of it")
