"""Copies of one engine beside each other: each alone, and all loaded at once."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import mean

import pandas as pd

from kilocard import processes
from kilocard.launch import Engine, default_spec, start_replicas
from kilocard.launch.command import NoBuildError, find_build
from kilocard.launch.elsewhere import named_urls
from kilocard.launch.process import play
from kilocard.launch.replicas import most_ranks
from kilocard.load import sweep
from kilocard.notebook.pinning import beside, placements
from kilocard.notebook.pinning_worker import MATRIX_SIDE
from kilocard.record import REQUEST_COLUMNS, Run
from kilocard.record.table import as_typed
from kilocard.stats import e2e_s, tpot_s
from kilocard.topology import Host

TIMES = ("scheduled_s", "sent_s", "first_token_s", "last_token_s")
CPU_TICKS = slice(11, 13)
"""Where /proc/PID/stat has a process's own CPU time, in user and in kernel mode."""


@dataclass(frozen=True, slots=True)
class Load:
    """A closed loop on each engine."""

    concurrency: int = 4
    requests: int = 24
    prompt_tokens: int = 64
    output_tokens: int = 32


@dataclass(frozen=True, slots=True)
class AtOnce:
    """What engines did while all were loaded at the same time; the runs share one clock."""

    runs: tuple[Run, ...]
    cpu_s: tuple[float, ...]
    """CPU time that each engine's processes took meanwhile."""

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second of all."""
        return sum(tokens_per_s(run) for run in self.runs)

    @property
    def spread_percent(self) -> float:
        """How much more all of them wrote in the best turn than in the worst."""
        turns = [sum(stage_tokens_per_s(run, turn) for run in self.runs) for turn in self.runs[0].stages]
        return 100 * (max(turns) / min(turns) - 1)

    @property
    def tpot_s(self) -> float:
        """The median TPOT, averaged over the engines."""
        return mean(median_tpot_s(run) for run in self.runs)

    @property
    def cpu_per_token_s(self) -> float:
        """CPU time of the engines' processes for each token that they wrote."""
        return sum(self.cpu_s) / sum(float(run.ok["output_tokens"].sum()) for run in self.runs)

    @property
    def client_cores(self) -> float:
        """CPU time of the load generators, in cores."""
        return sum(float(run.stamp.client["cpu_cores"]) for run in self.runs)

    @property
    def all_answered(self) -> bool:
        """Whether every request of every engine ended well."""
        return all(len(run.ok) == len(run.requests) for run in self.runs)


@dataclass(frozen=True, slots=True)
class SharedRead:
    """Bytes a second that a core reads from memory: alone, and while a second one does the same."""

    alone_bytes_per_s: float
    beside_bytes_per_s: float


def two_copies() -> list[Engine]:
    """The book's engine twice, ours to kill; emulated where vLLM, or a second core or card, is missing."""
    spec, reason = default_spec(), _no_room()
    if not reason:
        return start_replicas(spec, 2)
    return [play(spec, 0, reason) for _ in range(2)]


def _no_room() -> str:
    if named_urls():
        return "engines that KILOCARD_ENGINE_URL names are not ours to kill"
    with suppress(NoBuildError):
        find_build()
        if (ranks := most_ranks()) < 2 * default_spec().ranks:
            return f"two engines need two cores or cards, and this box lends {ranks}"
    return ""


def at_once(engines: Sequence[Engine], load: Load, *, seed: int = 0) -> AtOnce:
    """Load every engine at the same time, each from a client of its own.

    The closed loops are alike; their prompts are not.
    """
    before = [_cpu_s(engine) for engine in engines]
    with ThreadPoolExecutor(len(engines), thread_name_prefix="kilocard-copies") as threads:
        begun = [
            threads.submit(loaded, engine, load, seed=seed + place) for place, engine in enumerate(engines)
        ]
        runs = [future.result() for future in begun]
    took = [_cpu_s(engine) - first for first, engine in zip(before, engines, strict=True)]
    return AtOnce(tuple(on_one_clock(runs)), tuple(took))


def by_turns(engines: Sequence[Engine], load: Load) -> list[AtOnce]:
    """Each of two engines alone, and both at once: A, both, B, and back, so that a slow drift of the box
    meets all alike. The turns of each are the stages of its runs.
    """
    first, second = engines
    groups = ([first], engines, [second])
    there = [at_once(group, load, seed=10 * place) for place, group in enumerate(groups)]
    back = [at_once(group, load, seed=100 + 10 * place) for place, group in enumerate(groups[::-1])]
    alone_first, both, alone_second = map(_pooled, zip(there, back[::-1], strict=True))
    return [alone_first, alone_second, both]


def _pooled(turns: Sequence[AtOnce]) -> AtOnce:
    """Turns as the stages of one run an engine."""
    runs = [_in_turn(of_one) for of_one in zip(*(turn.runs for turn in turns), strict=True)]
    return AtOnce(tuple(runs), tuple(map(sum, zip(*(turn.cpu_s for turn in turns), strict=True))))


def _in_turn(runs: Sequence[Run]) -> Run:
    tables = [run.requests.assign(stage=turn) for turn, run in enumerate(on_one_clock(runs))]
    stamp = runs[-1].stamp
    cores = mean(run.stamp.client["cpu_cores"] for run in runs)
    return Run(
        as_typed(pd.concat(tables, ignore_index=True), REQUEST_COLUMNS),
        replace(stamp, client={**stamp.client, "cpu_cores": cores}),
    )


def on_one_clock(runs: Sequence[Run]) -> list[Run]:
    """Runs of one machine with their times counted from when the first of them began."""
    first_s = origin_s(runs)
    return [_later(run, run.stamp.client["began_s"] - first_s) for run in runs]


def tokens_per_s(run: Run) -> float:
    """Output tokens a second, averaged over its turns."""
    return mean(stage_tokens_per_s(run, turn) for turn in run.stages)


def stage_tokens_per_s(run: Run, turn: int) -> float:
    """Output tokens a second in one turn, from the first request sent to the last token."""
    rows = run.stage(turn).ok
    return float(rows["output_tokens"].sum() / (rows["last_token_s"].max() - rows["sent_s"].min()))


def median_tpot_s(run: Run) -> float:
    """The median TPOT of its requests."""
    return float(tpot_s(run.ok).median())


def median_answer_s(run: Run) -> float:
    """The median time from a request to its last token."""
    return float(e2e_s(run.ok).median())


def shared_read(host: Host) -> SharedRead:
    """Two cores of this box read memory, first one of them and then both."""
    tried = placements(host)
    seen = beside({name: tried[name] for name in ("one, alone", "two, a core each")})
    matrix_bytes = 4 * math.prod(MATRIX_SIDE)
    return SharedRead(*(matrix_bytes / it.step_s for it in seen.values()))


def family(engines: Iterable[Engine]) -> list[int]:
    """Every process of those engines that this process began."""
    mine = [pid for it in engines if not it.is_shared for pid in it.ranks().values()]
    return [pid for root in mine for pid in (root, *processes.descendants(root))]


def still_running(pids: Iterable[int]) -> list[int]:
    """Which of these processes live."""
    return [pid for pid in pids if processes.is_running(pid)]


def loaded(engine: Engine, load: Load, *, seed: int) -> Run:
    """One engine under its closed loop."""
    return sweep(
        engine.url,
        engine.model,
        concurrency=(load.concurrency,),
        requests_per_level=load.requests,
        prompt_tokens=load.prompt_tokens,
        output_tokens=load.output_tokens,
        warmup=0,
        seed=seed,
        stamp=engine.stamp_fields(),
    )


def origin_s(runs: Sequence[Run]) -> float:
    """When the first of runs began, in seconds since 1970."""
    return min(float(run.stamp.client["began_s"]) for run in runs)


def _later(run: Run, by_s: float) -> Run:
    table = run.requests.copy()
    table[list(TIMES)] += by_s
    return replace(run, requests=table)


def _cpu_s(engine: Engine) -> float:
    """CPU time of the engine's processes so far."""
    pids = {pid for root in engine.ranks().values() for pid in (root, *processes.descendants(root))}
    ticks = [int(tick) for pid in pids for tick in processes.stat_fields(pid)[CPU_TICKS]]
    return sum(ticks) / os.sysconf("SC_CLK_TCK")
