"""One emulated engine: the engine model's plans, made when the clock says that they are due."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from kilocard.emulator.asked import Asked
from kilocard.emulator.clock import Clock, Timer
from kilocard.emulator.faults import Faults
from kilocard.emulator.prefix import Path, PrefixNames
from kilocard.emulator.rows import RequestRows
from kilocard.emulator.stream import NO_ROW, Stream
from kilocard.emulator.tally import Tally
from kilocard.engine_model.compiled import NEVER_PS, PICOSECONDS

COSTS = ("kv_token_ps", "sequence_ps", "prefill_step_ps", "pair_ps", "prefill_floor_ps")
FAR_PS = 2**60
"""Virtual time that an idle engine sets back to 0, long before it could overflow."""


class Engine:
    """Takes requests, and hands each its tokens at the end of the steps that make them.

    Three things happen, each at a virtual time of its own: a request reaches the scheduler (its overhead
    after it was read: HTTP, tokenizer, hand-over), a plan is due, a step ends and its tokens leave. However
    late the process wakes up, they are worked through in their order, so what a plan holds never depends on
    it.
    """

    def __init__(
        self,
        number: int,
        rows: RequestRows,
        names: PrefixNames,
        clock: Clock,
        overhead_s: float,
        tally: Tally,
    ) -> None:
        self.number, self.clock, self.tally = number, clock, tally
        self.faults = Faults()
        self._rows, self._names = rows, names
        self._overhead_ps = round(overhead_s * PICOSECONDS)
        self._replica: Any = rows.engines.replicas[number]
        self._block_tokens = int(self._replica.block_tokens)
        self._caches = bool(self._replica.prefix_caching)
        self._costs = {name: int(self._replica[name]) for name in COSTS}
        self._chance = random.Random(number)
        self._timer = Timer(clock, self._wake)
        self._arrivals: deque[tuple[int, Stream]] = deque()
        self._steps: deque[tuple[int, list[Stream]]] = deque()
        self._here: set[Stream] = set()
        self._event_ps = NEVER_PS
        self._done_ps = 0
        self._left_ps = 0
        self._lost_ps = 0
        self._stopped_ps: int | None = None
        self._ready_ps = 0

    @property
    def live(self) -> int:
        """Requests that are here, from their arrival to their last token."""
        return len(self._here)

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return int(self._replica.occupied)

    @property
    def waiting(self) -> int:
        """Requests in the line."""
        return int(self._replica.waiting)

    @property
    def counters(self) -> Any:
        """The replica's row, in which the model counts."""
        return self._replica

    @property
    def free_blocks(self) -> int:
        """KV blocks that nobody holds."""
        return self._rows.free_blocks(self.number)

    @property
    def is_ready(self) -> bool:
        """Whether it has started."""
        return self.clock.now_ps() >= self._ready_ps

    def path_of(self, asked: Asked) -> Path:
        """The named streams of a prompt."""
        return self._names.path(asked.blocks(self._block_tokens)) if self._caches else []

    def submit(self, stream: Stream, read_at: float) -> None:
        """A request was read at a moment of the `perf_counter` clock."""
        stream.arrived_ps = self.clock.at_ps(read_at)
        if self._chance.random() < self.faults.error_event:
            stream.fail_midway()
        due_ps = max(stream.arrived_ps - self._lost_ps, 0) + self._overhead_ps
        if self._stopped_ps is not None:
            due_ps = self._stopped_ps - self._lost_ps + self._overhead_ps
        due_ps = max(due_ps, self._done_ps, self._arrivals[-1][0] if self._arrivals else 0)
        self._arrivals.append((due_ps, stream))
        self._here.add(stream)
        if len(self._arrivals) == 1:
            self._set_timer()

    def cancel(self, stream: Stream) -> None:
        """Its client hung up: free what it holds."""
        stream.drop()
        self.withdraw(stream)
        self.tally.aborted += 1

    def withdraw(self, stream: Stream) -> None:
        """Take a request out, wherever it is."""
        self._here.discard(stream)
        if stream.row == NO_ROW:
            self._arrivals = deque(entry for entry in self._arrivals if entry[1] is not stream)
        else:
            self._rows.withdraw(self.number, stream.row)

    def begun(self, stream: Stream) -> None:
        """A request had its first token."""
        stream.first_ps = self._left_ps
        self.tally.note_first(stream, self.cached_tokens(stream))

    def ended(self, stream: Stream) -> None:
        """A request has had its last token."""
        self._here.discard(stream)
        request = self._rows.engines.tables.requests[stream.row]
        self.tally.note(stream, self._left_ps, request, self._overhead_ps)

    def cached_tokens(self, stream: Stream) -> int:
        """Prompt tokens that the prefix cache gave."""
        return int(self._rows.engines.tables.requests[stream.row].cached)

    def refuses(self) -> bool:
        """Whether this request is one that the fault answers with a 500."""
        return self._chance.random() < self.faults.http_500

    def set_faults(self, faults: Faults, starts_anew: bool = False) -> None:
        """From now on; one that starts anew is not ready for `start_s`."""
        self._catch_up()
        self.faults = faults
        replica = self._replica
        replica.slow_permille = max(1, round(1000 * faults.slow))
        for name, cost in self._costs.items():
            replica[name] = round(cost * faults.slow)
        if starts_anew:
            self._ready_ps = self.clock.now_ps() + round(faults.start_s * PICOSECONDS)
        if faults.hang and self._stopped_ps is None:
            self._stopped_ps = self.clock.now_ps()
        elif not faults.hang and self._stopped_ps is not None:
            self._lost_ps += self.clock.now_ps() - self._stopped_ps
            self._stopped_ps = None
        self._set_timer()

    def clear(self) -> None:
        """Lose all requests and the whole cache, as a process that died does."""
        for stream in list(self._here):
            stream.drop()
            self.withdraw(stream)
        self._steps.clear()
        while self._event_ps != NEVER_PS:
            self._plan()
        self._steps.clear()
        self._rows.wipe(self.number)
        self.tally = Tally(self.tally.max_model_len)
        self._set_timer()

    def close(self) -> None:
        """End every answer as an engine that shuts down does."""
        for stream in list(self._here):
            self.withdraw(stream)
            stream.abort()
        self._timer.close()

    def _wake(self) -> None:
        self._catch_up()
        self._set_timer()

    def _now_ps(self) -> int:
        """The engine's own time: a hang stops it."""
        now_ps = self.clock.now_ps() if self._stopped_ps is None else self._stopped_ps
        return now_ps - self._lost_ps

    def _catch_up(self) -> None:
        """Work through all that is due, in order; of what is due together, tokens leave first."""
        now_ps = self._now_ps()
        steps, arrivals = self._steps, self._arrivals
        while True:
            step_ps = steps[0][0] if steps else NEVER_PS
            arrival_ps = arrivals[0][0] if arrivals else NEVER_PS
            due_ps = min(step_ps, arrival_ps, self._event_ps)
            if due_ps > now_ps:
                return
            self._done_ps = due_ps
            if step_ps == due_ps:
                self._emit(*steps.popleft())
            elif arrival_ps == due_ps:
                _, stream = arrivals.popleft()
                self._event_ps = self._rows.enter(self.number, stream, due_ps)
            else:
                self._plan()
            arrivals = self._arrivals

    def _emit(self, end_ps: int, streams: list[Stream]) -> None:
        """The tokens of a step leave: at its end, however late that is noticed."""
        self._left_ps = end_ps + self._lost_ps
        for stream in streams:
            stream.token()
        self.tally.note_step(len(streams), self.clock.real_s(self._now_ps() - end_ps))

    def _plan(self) -> None:
        self._event_ps, end_ps, streams = self._rows.advance(self.number)
        if streams:
            self._steps.append((end_ps, streams))

    def _set_timer(self) -> None:
        due_ps = self._event_ps
        if self._steps and self._steps[0][0] < due_ps:
            due_ps = self._steps[0][0]
        if self._arrivals and self._arrivals[0][0] < due_ps:
            due_ps = self._arrivals[0][0]
        if due_ps >= NEVER_PS:
            self._rest()
        if self._stopped_ps is not None:
            due_ps = NEVER_PS
        self._timer.set(due_ps + self._lost_ps if due_ps < NEVER_PS else NEVER_PS)

    def _rest(self) -> None:
        """Nothing is due: an engine that has run for very long begins its time anew."""
        if self._done_ps > FAR_PS:
            self._lost_ps += self._done_ps
            self._done_ps = 0
            self._replica.run_start_ps = self._replica.step_ps = self._replica.slope_ps = 0
