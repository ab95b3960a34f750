"""The request rows of all emulated engines: taken when a request comes, given back when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import typeof

from kilocard.emulator.steps import FULL, HEAD, Calls, Desk, compile_calls, new_desk
from kilocard.engine_model.state import (
    NOBODY,
    PATH,
    Engines,
    Rows,
    grown_entries,
    new_entries,
    new_requests,
    table,
)

if TYPE_CHECKING:
    from kilocard.emulator.stream import Stream

FIRST_ROWS = 1024
MOST_STREAMS = 32
"""Named streams of one prompt that are told apart; what follows the last of them is never met again."""


class RequestRows:
    """Owns the tables that the engines share; they grow as more requests are here at once."""

    def __init__(self, engines: Engines, first_rows: int = FIRST_ROWS) -> None:
        entries = new_entries(16 * first_rows + 8 * engines.slots.shape[1])
        paths = table(first_rows * MOST_STREAMS, PATH)
        self.engines = _with_tables(engines, _placed(new_requests(first_rows)), paths, entries)
        self.desk: Desk = new_desk(self.engines)
        self.calls: Calls = compile_calls(typeof(self.engines), typeof(self.desk))
        self._streams: list[Any] = [None] * first_rows
        self._free = list(range(first_rows - 1, -1, -1))

    @property
    def taken(self) -> int:
        """Rows in use."""
        return len(self._streams) - len(self._free)

    def enter(self, replica: int, stream: Stream, now_ps: int) -> int:
        """Give a request a row and hand it to its engine; returns when that engine's next plan is due."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._streams[row], stream.row = stream, row
        asked, path = stream.asked, stream.path[:MOST_STREAMS]
        if path:
            begin, paths = row * MOST_STREAMS, self.engines.tables.paths
            for place, (name, end_tokens) in enumerate(path, begin):
                paths[place] = (name, end_tokens)
        return self.calls.enter(
            *(self.engines, replica, row, asked.prompt_tokens, asked.output_tokens, asked.priority),
            *(len(path), now_ps),
        )

    def advance(self, replica: int) -> tuple[int, int, list[Stream]]:
        """Make the plan that is due: when the next one is, when its step ends, and who gets a token then."""
        while self.calls.advance(self.engines, self.desk, replica) == FULL:
            tables = self.engines.tables
            self.engines = _with_tables(
                self.engines, tables.requests, tables.paths, grown_entries(tables.entries)
            )
        told = self.desk.told
        event_ps, end_ps, tokens, done = told[:HEAD].tolist()
        streams = self._streams
        lucky = [streams[row] for row in told[HEAD : HEAD + tokens].tolist()]
        for row in told[HEAD + tokens : HEAD + tokens + done].tolist() if done else ():
            self._release(row)
        return event_ps, end_ps, lucky

    def withdraw(self, replica: int, row: int) -> None:
        """Take a request off its engine, unless it has all its tokens and leaves by itself."""
        if self.calls.withdraw(self.engines, replica, row):
            self._release(row)

    def free_blocks(self, replica: int) -> int:
        """KV blocks that nobody holds."""
        return self.calls.free_blocks(self.engines, replica)

    def wipe(self, replica: int) -> None:
        """Let an idle engine forget all."""
        self.calls.wipe(self.engines, replica)
        self.desk.gaps[replica] = 0
        self.desk.step_tokens[replica] = 0

    def _release(self, row: int) -> None:
        self._streams[row] = None
        self.desk.seen_ps[row] = NOBODY
        self._free.append(row)

    def _grow(self) -> None:
        """Twice the room; everything kept."""
        before, tables = len(self._streams), self.engines.tables
        requests = _placed(new_requests(2 * before))
        requests[:before] = tables.requests
        self.engines = _with_tables(self.engines, requests, _doubled(tables.paths, PATH), tables.entries)
        unseen = np.full(before, NOBODY)
        self.desk = self.desk._replace(seen_ps=np.concatenate([self.desk.seen_ps, unseen]))
        self._streams += [None] * before
        self._free += range(2 * before - 1, before - 1, -1)


def _with_tables(engines: Engines, requests: Rows, paths: Rows, entries: Rows) -> Engines:
    return engines._replace(tables=engines.tables._replace(requests=requests, paths=paths, entries=entries))


def _doubled(rows: Rows, kind: np.dtype[Any]) -> Rows:
    larger = table(2 * len(rows), kind)
    larger[: len(rows)] = rows
    return larger


def _placed(requests: Rows) -> Rows:
    """Each row has its own stretch of the table of paths."""
    requests.path_at = MOST_STREAMS * requests.number
    return requests
