"""The simulation's loop: arrivals meet a policy, engines make their plans, in the order of time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import NEVER_PS, compiled
from kilocard.engine_model.scheduler import arrive, make_plan
from kilocard.engine_model.state import NOBODY, Engines, Rows
from kilocard.fleet.desk import (
    HEAD,
    KEEPS,
    ROOM_PS,
    Desk,
    look_around,
    note_sent,
    see_end,
    see_plan,
    step_forward,
    wait_in_line,
)
from kilocard.fleet.due import Due, new_due, pop, push, soonest_ps
from kilocard.fleet.events import sift
from kilocard.routing.replicas import Arrival, Policy, Replicas

BUSY, CROWDED, REACHED = range(3)
"""Why the loop stopped: there is more to come; the KV caches' table has to grow first; the time is reached,
or nothing is left to happen."""


class Agenda(NamedTuple):
    """What is still to happen: requests in order of arrival, the heap of plans, and followers that wait for
    an answer.

    `counts` holds the next arrival, the next request of a closed loop, the requests done.
    """

    arrivals: NDArray[np.int64]
    heap: NDArray[np.int64]
    place_of: NDArray[np.int64]
    due_ps: NDArray[np.int64]
    followers: Due
    counts: NDArray[np.int64]


def new_agenda(requests: Rows, replicas: int, closed_loop: bool) -> Agenda:
    """Requests that have a time of their own in its order, and nothing planned; in a closed loop each of the
    others sets out when one ends."""
    openings = np.nonzero(requests.arrival_ps < NEVER_PS)[0]
    order = openings[np.argsort(requests.arrival_ps[openings], kind="stable")]
    return Agenda(
        arrivals=order,
        heap=np.arange(replicas),
        place_of=np.arange(replicas),
        due_ps=np.full(replicas, NEVER_PS),
        followers=new_due(len(requests)),
        counts=np.array([0, len(order) if closed_loop else len(requests), 0]),
    )


@compiled
def dispatch(
    policy: Policy,
    engines: Engines,
    agenda: Agenda,
    desk: Desk,
    replicas: Replicas,
    random: Any,
    request: int,
    now_ps: int,
) -> bool:
    """Ask the policy for a replica and hand the request over; where there is none, the request
    keeps the number that was named and is not answered. False where all are full."""
    asked = engines.tables.requests[request]
    prefix = engines.tables.paths[asked.path_at].stream if asked.path_length > 0 else NOBODY
    arrival = Arrival(asked.prompt, asked.output, prefix, asked.priority)
    if desk.counts[KEEPS]:
        look_around(engines, desk, replicas, asked, now_ps)
    r = policy(replicas, arrival, random)
    if r < 0 or r >= len(engines.replicas):
        asked.replica = r
        return r != NOBODY or replicas.cap[0] == 0
    if desk.counts[KEEPS]:
        note_sent(engines, desk, replicas, asked, arrival, r, now_ps)
    else:
        replicas.active[r] += 1
    replica = engines.replicas[r]
    arrive(engines.tables.requests, replica, asked, now_ps)
    if agenda.due_ps[r] != replica.event_ps:
        agenda.due_ps[r] = replica.event_ps
        sift(agenda.heap, agenda.place_of, agenda.due_ps, r)
    return True


@compiled
def answer(requests: Rows, agenda: Agenda, desk: Desk, replicas: Replicas, ended: Any) -> None:
    """A request has ended: its replica has one fewer, and whoever waited for it sets out."""
    if desk.counts[KEEPS]:
        see_end(requests, desk, replicas, ended)
    else:
        replicas.active[ended.replica] -= 1
    agenda.counts[2] += 1
    follower = ended.successor
    if follower == NOBODY and agenda.counts[1] < len(requests):
        follower = agenda.counts[1]
        agenda.counts[1] += 1
    if follower != NOBODY:
        requests[follower].arrival_ps = ended.last_ps + requests[follower].gap_ps
        push(agenda.followers, follower, requests[follower].arrival_ps)


def run_events(
    policy: Policy,
    engines: Engines,
    agenda: Agenda,
    desk: Desk,
    replicas: Replicas,
    random: Any,
    most_steps: int,
    events: int,
    until_ps: int,
) -> int:
    """Work through what is due before `until_ps`, up to `events` events; returns why it stopped."""
    requests = engines.tables.requests
    for _ in range(events):
        arrival_ps = NEVER_PS
        if agenda.counts[0] < len(agenda.arrivals):
            arrival_ps = requests[agenda.arrivals[agenda.counts[0]]].arrival_ps
        follower_ps = soonest_ps(agenda.followers)
        r = agenda.heap[0]
        plan_ps = agenda.due_ps[r]
        room_ps = desk.counts[ROOM_PS]
        if room_ps < 0 and min(arrival_ps, follower_ps, plan_ps) >= until_ps:
            return REACHED
        if engines.tables.entries[0].cached < len(engines.tables.entries) // 8:
            return CROWDED
        if room_ps < 0 and plan_ps < arrival_ps and plan_ps < follower_ps:
            replica = engines.replicas[r]
            make_plan(engines.tables, replica, engines.slots[r], engines.base_ps[replica.costs], most_steps)
            agenda.due_ps[r] = replica.event_ps
            sift(agenda.heap, agenda.place_of, agenda.due_ps, r)
            if desk.counts[KEEPS]:
                see_plan(engines, desk, r, plan_ps)
            while replica.finished != NOBODY:
                ended = engines.tables.requests[replica.finished]
                replica.finished = ended.behind
                answer(engines.tables.requests, agenda, desk, replicas, ended)
            continue
        if room_ps >= 0:
            request = desk.counts[HEAD]
        elif arrival_ps <= follower_ps:
            request = agenda.arrivals[agenda.counts[0]]
            agenda.counts[0] += 1
        else:
            request = pop(agenda.followers)
        if room_ps < 0 and desk.counts[HEAD] != NOBODY:
            wait_in_line(requests, desk, request)
            continue
        after = requests[request].behind
        now_ps = max(room_ps, requests[request].arrival_ps)
        found = dispatch(policy, engines, agenda, desk, replicas, random, request, now_ps)
        if room_ps >= 0:
            step_forward(desk, after, found)
        elif not found:
            wait_in_line(requests, desk, request)
    return BUSY
