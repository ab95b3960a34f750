"""What every engine of a fleet holds, as tables: the state that the scheduler and the KV cache read and
write.

Times are whole picoseconds, so that a run of steps added up at once equals the same steps added one by one,
to the
last bit. Every function of the engine model takes these tables and the number of a replica; none keeps
state of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import NEVER_PS, compiled

Rows = Any
"""A table: a record array whose fields are attributes, compiled or not."""

NOBODY = -1
"""No request: the end of a line."""

PREFILLS = 2**61
"""The last plan of a request that has not come to decode yet."""

NOTHING = 0
"""No entry: the end of a list."""


def _row(*fields: str) -> np.dtype[Any]:
    return np.dtype([(name, np.int64) for name in fields])


# fmt: off
REPLICA = _row(
    "number",
    # what vLLM's flags set
    "max_num_seqs", "max_num_batched_tokens", "block_tokens", "kv_blocks", "state_blocks",
    "lag", "waves", "by_priority", "prefix_caching",
    # what a step costs, in picoseconds; `costs` is the row of the table by tokens in the step
    "costs", "slow_permille", "kv_token_ps", "sequence_ps", "prefill_step_ps", "pair_ps",
    "prefill_floor_ps",
    # the run of like steps that was planned last, and when the next plan is due
    "plan", "tokens", "run_steps", "run_start_ps", "step_ps", "slope_ps", "event_ps",
    # who is here
    "occupied", "scheduled", "decoding", "prefilling", "gathering",
    "waiting", "waiting_head", "waiting_tail", "finished",
    # KV blocks that nobody holds; a floor under their number; the free list: its head, and its named parts
    "free_blocks", "slack_blocks", "unnamed_blocks", "oldest", "newest",
    # counted from the start
    "steps", "busy_ps", "computed_tokens", "hit_tokens", "asked_tokens", "preemptions",
)
"""One engine. `lag` is 1 with asynchronous scheduling (a plan is made one step ahead), else 0; `waves` is
static batching. Of its `occupied` slots the first `scheduled` take part in the plan."""

SLOT = _row("request", "target", "computed", "offset", "last_plan", "blocks", "shared_blocks", "held")
"""One running request. It prefills until `computed` reaches `target`; then plan `p` reads `offset + p` tokens
of KV, up to `last_plan`. `blocks` are all its KV blocks, `shared_blocks` those of named prefixes, of which it
holds `held`; it has none left where it was preempted while only its last token was to come."""

REQUEST = _row(
    "number", "arrival_ps", "scheduled_ps", "first_ps", "last_ps", "prompt", "output", "made", "cached",
    "priority", "replica", "preemptions", "path_at", "path_length", "successor", "gap_ps", "behind",
)
"""One request. `made` are the tokens it had when it was last preempted; `behind` is the next in the line."""

PATH = _row("stream", "end_tokens")
"""A prompt as a chain of named token streams, each up to a length: a system prompt, then a conversation."""

ENTRY = _row(
    "replica", "stream", "first_block", "cached", "references", "older", "newer", "unnamed_after", "place",
)
"""The blocks of one stream that one replica keeps. While nobody refers to it, it stands in the free list,
followed by `unnamed_after` blocks that no prompt can meet again. Row 0 heads the list of unused rows
(`newer`,
and how many as `cached`). The column `place` is apart from the rows: it is the table of a hash search that
holds row numbers, 0 where empty."""
# fmt: on


class Tables(NamedTuple):
    """What the engines of a fleet share: the requests, their prompts' paths, and the entries of all KV
    caches."""

    requests: Rows
    paths: Rows
    entries: Rows


class Engines(NamedTuple):
    """A fleet: one row a replica, its slots [replica, place], step costs [row, tokens in the step], and
    what all share."""

    replicas: Rows
    slots: Rows
    base_ps: NDArray[np.int64]
    tables: Tables


def table(rows: int | tuple[int, ...], kind: np.dtype[Any]) -> Rows:
    """Rows of zeros whose fields are attributes, compiled or not."""
    return np.zeros(rows, kind).view(np.recarray)


def begin_of(replica: int, stream: int, places: int) -> int:
    """Where a search for (replica, stream) begins among so many places, a power of two."""
    return ((replica * 0x9E3779B1 + stream * 0x85EBCA6B) >> 7) & (places - 1)


place_of = compiled(begin_of)
"""The same for compiled code, which alone can call it."""


def new_entries(most: int) -> Rows:
    """Room for `most` entries, all unused; twice as many places, so that searches stay short."""
    entries = table(1 << (2 * most + 1).bit_length(), ENTRY)
    rows = len(entries) // 2
    entries.newer[:rows] = np.arange(1, rows + 1)
    entries.newer[rows - 1] = NOTHING
    entries.cached[0] = rows - 1
    return entries


def grown_entries(entries: Rows) -> Rows:
    """Twice the room, everything kept; the places are found anew."""
    rows = len(entries) // 2
    larger = table(2 * len(entries), ENTRY)
    larger[:rows] = entries[:rows]
    larger.place = NOTHING
    larger.newer[rows : 2 * rows] = np.arange(rows + 1, 2 * rows + 1)
    larger.newer[2 * rows - 1] = entries[0].newer
    larger[0].newer = rows
    larger[0].cached += rows
    used = np.unique(entries.place[entries.place != NOTHING])
    for at in used:
        place = begin_of(larger[at].replica, larger[at].stream, len(larger))
        while larger[place].place != NOTHING:
            place = (place + 1) & (len(larger) - 1)
        larger[place].place = at
    return larger


def new_requests(count: int) -> Rows:
    """Requests that have not arrived, and that nothing has happened to."""
    requests = table(count, REQUEST)
    requests.number = np.arange(count)
    for name in ("scheduled_ps", "first_ps", "last_ps", "successor", "behind", "replica"):
        requests[name] = NOBODY
    return requests


def new_replica(replica: Any) -> None:
    """An engine, or a whole table of them, that has just become ready: idle, every block free."""
    replica.event_ps = NEVER_PS
    replica.waiting_head = replica.waiting_tail = replica.finished = NOBODY
    replica.free_blocks = replica.slack_blocks = replica.unnamed_blocks = replica.kv_blocks
