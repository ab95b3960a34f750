"""Engines' processes in virtual time: they boot, load their weights, serve, hang, die."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from kilocard.cluster.books import CUT, GONE, UNDER_WAY, UP
from kilocard.cluster.calendar import Calendar
from kilocard.cluster.hands import Hands
from kilocard.cluster.loading import Loading
from kilocard.cluster.watch import Watch
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.routing.health import Ending

EXIT_S = 1.0


@dataclass(slots=True)
class Processes:
    """Of all engines. `ready_s` is what passes until a loaded one is known to serve; `times` how many times
    as long a version's steps take, `faulty_times` an engine's; `quiet_since_s` of those that hang."""

    hands: Hands
    watch: Watch
    calendar: Calendar
    loading: Loading
    boot_s: float
    ready_s: float
    weights_bytes: list[float]
    times: dict[str, float] = field(default_factory=dict)
    faulty_times: dict[int, float] = field(default_factory=dict)
    runs: dict[int, str] = field(default_factory=dict)
    booted_s: dict[int, float] = field(default_factory=dict)
    alive: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)
    quiet_since_s: dict[int, float] = field(default_factory=dict)

    def start(self, r: int, version: str, now_ps: int) -> None:
        """It boots, then waits for its weights."""
        now_s = now_ps / PICOSECONDS
        self.alive.add(r)
        self.ready.discard(r)
        self.runs[r], self.booted_s[r] = version, now_s
        self.calendar.at_s(now_s + self.boot_s, partial(self._load, r, now_s))

    def stop(self, r: int, now_ps: int) -> None:
        """It ends within a second or so; what it still held is cut off."""
        self.quiet_since_s.pop(r, None)
        self.ready.discard(r)
        self._loaded(self.loading.stop(r, now_ps / PICOSECONDS), now_ps)
        self.end(r, now_ps)
        self.calendar.at_s(now_ps / PICOSECONDS + EXIT_S, lambda _: self.alive.discard(r))

    def end(self, r: int, now_ps: int) -> None:
        """It is gone, and its host says so to whoever was connected."""
        hands = self.hands
        held = hands.held_by(r)
        hands.empty(r, now_ps)
        hands.ground.marks.alive[r] = GONE
        self.watch.suspect(r, now_ps)
        for request in held:
            if hands.ground.books.status[request] != UNDER_WAY:
                continue
            g, sent_ps = int(hands.ground.books.gateway[request]), int(hands.ground.books.sent_ps[request])
            self.watch.request_ended(g, r, Ending.CUT, sent_ps, now_ps)
            hands.fail(int(request), CUT, now_ps)

    def slow(self, r: int, times: float, now_ps: int) -> None:
        """What it does takes so many times what its version takes; 1 is as it should be."""
        self.faulty_times[r] = times
        self._pace(r, now_ps)

    def _pace(self, r: int, now_ps: int) -> None:
        version_times = self.times.get(self.runs.get(r, ""), 1.0)
        self.hands.slow(r, version_times * self.faulty_times.get(r, 1.0), now_ps)

    def _load(self, r: int, started_s: float, now_ps: int) -> None:
        if self.booted_s.get(r) != started_s or r not in self.alive:
            return
        weights = self.weights_bytes[int(self.hands.ground.shape.pool[r])]
        self._loaded(self.loading.begin(r, weights, now_ps / PICOSECONDS), now_ps)
        self._await_loads()

    def _await_loads(self) -> None:
        due_s = self.loading.next_s
        if due_s is not None:
            self.calendar.at_s(due_s + 1e-6, self._look_at_loads)

    def _look_at_loads(self, now_ps: int) -> None:
        done = self.loading.advance(now_ps / PICOSECONDS)
        self._loaded(done, now_ps)
        if done:
            self._await_loads()

    def _loaded(self, done: list[int], now_ps: int) -> None:
        for r in done:
            at_s = now_ps / PICOSECONDS + self.ready_s
            self.calendar.at_s(at_s, partial(self._serves, r, self.booted_s[r]))

    def _serves(self, r: int, started_s: float, now_ps: int) -> None:
        if self.booted_s.get(r) != started_s or r not in self.alive:
            return
        self.hands.ground.marks.alive[r] = UP
        self._pace(r, now_ps)
        self.ready.add(r)
