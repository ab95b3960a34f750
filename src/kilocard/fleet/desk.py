"""What the simulated gateway keeps of its own: the line of those that find no room, what it sent where, and
first tokens that it is still to see."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import PICOSECONDS, compiled
from kilocard.engine_model.scheduler import run_end_ps
from kilocard.engine_model.state import NOBODY, Engines, Rows
from kilocard.fleet.due import Due, new_due, pop, push, soonest_ps
from kilocard.routing import observe, prefixes
from kilocard.routing.replicas import Arrival, Replicas

SCRAPE_PS = PICOSECONDS
"""Between two looks at the engines' own metrics."""


KEEPS, LOOK_PS, HEAD, TAIL, ROOM_PS = range(5)
"""Places in `Desk.counts`: whether the columns of `Replicas` are kept, when the metrics are looked at next,
the line's head and tail, and since when it may find room; else −1."""


class Desk(NamedTuple):
    """`counts` as their places are named. `firsts` are requests by their first token; `uncached` and
    `sent_ps` are by request; `keys` and `ends` have room for one prompt."""

    counts: NDArray[np.int64]
    held: prefixes.Held
    firsts: Due
    uncached: NDArray[np.int64]
    read: NDArray[np.int64]
    others_s: NDArray[np.float64]
    sent_ps: NDArray[np.int64]
    keys: NDArray[np.int64]
    ends: NDArray[np.int64]


def new_desk(requests: Rows, replicas: int, keeps: bool) -> Desk:
    """Before the first request; one that keeps no columns takes no room."""
    rows = len(requests) if keeps else 0
    longest = int(requests.path_length.max()) if keeps else 0
    return Desk(
        counts=np.array([keeps, 0, NOBODY, NOBODY, NOBODY]),
        held=prefixes.new_held(replicas if keeps and longest else 1, prefixes.FEW_PLACES if longest else 1),
        firsts=new_due(rows),
        uncached=np.zeros(rows, np.int64),
        read=np.zeros(rows, np.int64),
        others_s=np.zeros(rows),
        sent_ps=np.zeros(rows, np.int64),
        keys=np.zeros(longest, np.int64),
        ends=np.zeros(longest, np.int64),
    )


@compiled
def wait_in_line(requests: Rows, desk: Desk, request: int) -> None:
    """The last in the line."""
    requests[request].behind = NOBODY
    if desk.counts[HEAD] == NOBODY:
        desk.counts[HEAD] = request
    else:
        requests[desk.counts[TAIL]].behind = request
    desk.counts[TAIL] = request


@compiled
def step_forward(desk: Desk, after: int, found: bool) -> None:
    """The head of the line was tried: it makes way for the one after it, or all wait for the next answer."""
    if found:
        desk.counts[HEAD] = after
    if not found or after == NOBODY:
        desk.counts[ROOM_PS] = NOBODY


@compiled
def look_around(engines: Engines, desk: Desk, replicas: Replicas, asked: Any, now_ps: int) -> None:
    """Before the policy is asked: what came in meanwhile, and where this prompt's beginning may be cached."""
    see_firsts(engines.tables.requests, desk, replicas, now_ps)
    if now_ps >= desk.counts[LOOK_PS]:
        desk.counts[LOOK_PS] = now_ps + SCRAPE_PS
        for r in range(len(replicas.kv_free)):
            replicas.kv_free[r] = engines.replicas[r].free_blocks / engines.replicas[r].kv_blocks
    if len(desk.keys) > 0:
        length = read_path(engines, desk, asked, asked.prompt - 1)
        prefixes.find(desk.held, desk.keys[:length], desk.ends[:length], replicas.cached_tokens)


@compiled
def note_sent(
    engines: Engines, desk: Desk, replicas: Replicas, asked: Any, arrival: Arrival, r: int, now_ps: int
) -> None:
    """The request leaves for a replica, which will hold its prompt and its answer."""
    desk.uncached[asked.number] = observe.sent(replicas, r, arrival, now_ps / PICOSECONDS)
    desk.read[asked.number] = replicas.read_tokens[r]
    desk.sent_ps[asked.number] = now_ps
    if len(desk.keys) > 0:
        length = read_path(engines, desk, asked, asked.prompt + asked.output)
        prefixes.remember(desk.held, r, desk.keys[:length], desk.ends[:length])


@compiled
def read_path(engines: Engines, desk: Desk, asked: Any, most: int) -> int:
    """A prompt's streams as keys, up to so many tokens; returns how many there are."""
    for i in range(asked.path_length):
        step = engines.tables.paths[asked.path_at + i]
        desk.keys[i] = step.stream
        desk.ends[i] = min(step.end_tokens, most)
    return asked.path_length


@compiled
def see_plan(engines: Engines, desk: Desk, r: int, now_ps: int) -> None:
    """A plan was made: whose prompts it completes will be seen to begin when its first step ends, and who is
    done makes room for the line."""
    replica = engines.replicas[r]
    if replica.finished != NOBODY and desk.counts[HEAD] != NOBODY:
        desk.counts[ROOM_PS] = now_ps
    if replica.tokens <= replica.decoding:
        return
    at_ps = run_end_ps(replica, 1)
    requests = engines.tables.requests
    for place in range(replica.occupied):
        request = engines.slots[r][place].request
        if requests[request].first_ps == at_ps:
            push(desk.firsts, request, at_ps)


@compiled
def see_firsts(requests: Rows, desk: Desk, replicas: Replicas, now_ps: int) -> None:
    """All first tokens up to now."""
    while soonest_ps(desk.firsts) <= now_ps:
        request = pop(desk.firsts)
        waited_s = (requests[request].first_ps - desk.sent_ps[request]) / PICOSECONDS
        r = requests[request].replica
        observe.began(replicas, r, desk.uncached[request], waited_s, desk.read[request])
        desk.read[request] = replicas.read_tokens[r]
        first_s = requests[request].first_ps / PICOSECONDS
        desk.others_s[request] = observe.requests_s(replicas, r, first_s)


@compiled
def see_end(requests: Rows, desk: Desk, replicas: Replicas, ended: Any) -> None:
    """The last token of a request: its pace is what its tokens took on the whole."""
    see_firsts(requests, desk, replicas, ended.last_ps)
    r, now_s = ended.replica, ended.last_ps / PICOSECONDS
    seconds = (ended.last_ps - ended.first_ps) / PICOSECONDS
    company = observe.mean_company(replicas, r, desk.others_s[ended.number], seconds, now_s)
    read = desk.read[ended.number]
    observe.progressed(replicas, r, ended.output - 1, seconds, float(ended.output), read, company)
    observe.ended(replicas, r, 0, 0.0, now_s)
