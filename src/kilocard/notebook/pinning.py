"""What a core's neighbours cost: loops that read memory as decode does, side by side."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from kilocard.errors import KilocardError
from kilocard.notebook.pinning_worker import Orders, Told
from kilocard.processes import die_with_parent
from kilocard.topology import Host, format_cores

SECONDS = 0.8
BUDGET_S = 9.0
LIMIT_S = 30.0
CALM_SHARE = 0.03
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}


@dataclass(frozen=True, slots=True)
class Place:
    """The cores that one process may use, and whether it reads memory or only keeps a core busy.

    `memory_of` names cores whose node its memory lies on, where that is another one.
    """

    cores: tuple[int, ...]
    busy: bool = False
    memory_of: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """What one process did: its steps, and the CPU time that it was given, in seconds a second."""

    place: Place
    steps_s: tuple[float, ...]
    cpu_share: float
    seen_on: tuple[int, ...]

    @property
    def steps_per_s(self) -> float:
        """Its pace, over all that it did."""
        return len(self.steps_s) / sum(self.steps_s)


@dataclass(frozen=True, slots=True)
class Beside:
    """Processes that ran at once; a tensor-parallel group goes at the pace of its slowest."""

    loops: tuple[Loop, ...]

    @property
    def slowest(self) -> Loop:
        """The reading process with the fewest steps a second."""
        return min((it for it in self.loops if not it.place.busy), key=lambda it: it.steps_per_s)

    @property
    def step_s(self) -> float:
        """The median step of the slowest."""
        return median(self.slowest.steps_s)

    @property
    def cpu_share(self) -> float:
        """CPU time of all, in cores."""
        return sum(it.cpu_share for it in self.loops)

    @property
    def taken_share(self) -> float:
        """The share of its cores' time that others of the box had; what it left idle counts as theirs."""
        cores = {core for it in self.loops for core in it.place.cores}
        return max(0.0, 1 - self.cpu_share / min(len(cores), len(self.loops)))

    @property
    def on(self) -> str:
        """The cores of each process."""
        return " | ".join(format_cores(it.place.cores) for it in self.loops)


def placements(host: Host) -> dict[str, tuple[Place, ...]]:
    """What a box can try with two of its cores, with the threads of one core, and with two nodes."""
    first, second = two_cores(host)
    one, other, both = Place((first,)), Place((second,)), Place((first, second))
    tried = {
        "one, alone": (one,),
        "two, a core each": (one, other),
        "two, floating over both cores": (both, both),
        "two on one core": (one, one),
        "two floating, and a busy third": (both, both, Place(both.cores, busy=True)),
        "a core each, a busy third on one": (one, other, Place(other.cores, busy=True)),
    }
    if host.siblings:
        a, b = host.siblings[0][:2]
        tried["two on the threads of one core"] = (Place((a,)), Place((b,)))
    nodes = list(host.cores_by_node.values())
    if len(nodes) > 1:
        tried["one, its memory on the other node"] = (Place(nodes[0][:1], memory_of=nodes[1][:1]),)
    return tried


def beside(
    layouts: Mapping[str, Sequence[Place]], seconds: float = SECONDS, budget_s: float = BUDGET_S
) -> dict[str, Beside]:
    """Each layout for so long, one after the other; nothing of it is left behind.

    While the budget lasts, what others of the box disturbed most is tried again; the calmest try counts.
    """
    if not 0.01 <= seconds <= 60:
        raise KilocardError(f"{seconds} s for each layout: give 0.01 to 60")
    until_s = time.monotonic() + budget_s
    found = {name: Beside(_at_once(places, seconds)) for name, places in layouts.items()}
    while (worst := _most_disturbed(found)) and time.monotonic() < until_s:
        again = Beside(_at_once(layouts[worst], seconds))
        found[worst] = min(found[worst], again, key=lambda it: it.taken_share)
    return found


def _most_disturbed(found: Mapping[str, Beside]) -> str | None:
    """The layout that others took most from, where that is more than a calm box would lose."""
    disturbed = [name for name, it in found.items() if it.taken_share > CALM_SHARE]
    return max(disturbed, key=lambda name: found[name].taken_share, default=None)


@contextlib.contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Keep this thread, and those that it starts, on these cores for as long as the block runs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def two_cores(host: Host) -> tuple[int, int]:
    """Two physical cores of one node where there are; the same one twice where there is one."""
    physical = set(host.physical_cores)
    nodes = [[core for core in cores if core in physical] for cores in host.cores_by_node.values()]
    cores = max(nodes, key=len)
    return cores[0], cores[min(1, len(cores) - 1)]


def _at_once(places: Sequence[Place], seconds: float) -> tuple[Loop, ...]:
    with contextlib.ExitStack() as running:
        workers = [running.enter_context(_worker(place, seconds)) for place in places]
        running.callback(_end, workers)
        watch = threading.Timer(LIMIT_S + seconds, _end, [workers])
        running.callback(watch.cancel)
        watch.start()
        if all(worker.stdout and worker.stdout.readline() for worker in workers):
            for worker in workers:
                _go(worker)
        said = [worker.communicate() for worker in workers]
        return tuple(_loop(place, *words) for place, words in zip(places, said, strict=True))


def _worker(place: Place, seconds: float) -> subprocess.Popen[str]:
    me, orders = os.getpid(), Orders(place.cores, place.memory_of, place.busy, seconds)
    return subprocess.Popen(
        [sys.executable, "-m", "kilocard.notebook.pinning_worker", json.dumps(asdict(orders))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **ONE_THREAD},
        preexec_fn=lambda: die_with_parent(me),  # noqa: PLW1509 (it forks no thread)
    )


def _go(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin, "it was opened as a pipe"
    with contextlib.suppress(BrokenPipeError):
        worker.stdin.write("go\n")
        worker.stdin.flush()


def _end(workers: Sequence[subprocess.Popen[str]]) -> None:
    for worker in workers:
        worker.kill()


def _loop(place: Place, said: str, complained: str) -> Loop:
    try:
        told = Told(**json.loads(said))
    except (ValueError, TypeError) as error:
        reason = (complained.strip().splitlines() or ["it was killed"])[-1][:120]
        raise KilocardError(
            f"a process on core {format_cores(place.cores)} told nothing ({reason}): name usable cores, and "
            "leave it 400 MB of memory"
        ) from error
    return Loop(place, tuple(told.steps_s), told.cpu_s / sum(told.steps_s), tuple(told.seen_on))
