"""The loop of a whole cluster: arrivals meet gateways, engines make plans, clocks are looked at."""

from __future__ import annotations

from kilocard.cluster.books import Note, tell
from kilocard.cluster.ends import end, see_begins, see_firsts
from kilocard.cluster.ground import (
    ARRIVED,
    ENDED,
    LOOK_PS,
    Ground,
)
from kilocard.cluster.looks import look
from kilocard.cluster.moves import place
from kilocard.engine_model.compiled import NEVER_PS, compiled
from kilocard.engine_model.scheduler import make_plan
from kilocard.engine_model.state import NOBODY, Engines
from kilocard.fleet.due import pop, soonest_ps
from kilocard.fleet.events import sift
from kilocard.fleet.loop import Agenda
from kilocard.routing.replicas import Policy

BUSY, CROWDED, REACHED, TOLD = range(4)
"""Why the loop stopped: there is more to come; the KV caches' table has to grow first; the time is reached;
somebody else has something to do first."""

NOTE_TRIED = int(Note.TRIED)


def run_cluster(
    policy: Policy,
    engines: Engines,
    agenda: Agenda,
    ground: Ground,
    most_steps: int,
    events: int,
    until_ps: int,
) -> int:
    """Work through what is due before `until_ps`, up to `events` events; returns why it stopped."""
    requests, counts = engines.tables.requests, ground.counts
    for _ in range(events):
        if ground.notes.ends[0] > 0:
            return TOLD
        arrival_ps = NEVER_PS
        if agenda.counts[0] < len(agenda.arrivals):
            arrival_ps = requests[agenda.arrivals[agenda.counts[0]]].arrival_ps
        follower_ps = soonest_ps(agenda.followers)
        r = agenda.heap[0]
        plan_ps = agenda.due_ps[r]
        soonest = min(arrival_ps, follower_ps, plan_ps)
        if soonest == NEVER_PS and counts[ARRIVED] == counts[ENDED]:
            return REACHED
        if counts[LOOK_PS] <= soonest:
            if counts[LOOK_PS] >= until_ps:
                return REACHED
            look(policy, engines, agenda, ground)
            continue
        if soonest >= until_ps:
            return REACHED
        if engines.tables.entries[0].cached < len(engines.tables.entries) // 8:
            return CROWDED
        if plan_ps < arrival_ps and plan_ps < follower_ps:
            replica = engines.replicas[r]
            make_plan(engines.tables, replica, engines.slots[r], engines.base_ps[replica.costs], most_steps)
            agenda.due_ps[r] = replica.event_ps
            sift(agenda.heap, agenda.place_of, agenda.due_ps, r)
            see_begins(engines, ground, r)
            while replica.finished != NOBODY:
                ended = engines.tables.requests[replica.finished]
                replica.finished = ended.behind
                end(policy, engines, agenda, ground, ended)
            continue
        if arrival_ps <= follower_ps:
            request = agenda.arrivals[agenda.counts[0]]
            agenda.counts[0] += 1
        else:
            request = pop(agenda.followers)
        arrive_at_gateway(policy, engines, agenda, ground, request)
    return BUSY


@compiled
def arrive_at_gateway(policy: Policy, engines: Engines, agenda: Agenda, ground: Ground, request: int) -> None:
    """A request comes to one of the gateways that are open."""
    asked = engines.tables.requests[request]
    ground.counts[ARRIVED] += 1
    gateways = ground.shape.gateways
    g = ground.books.gateway[request]
    for _ in range(gateways):
        if ground.marks.open[g]:
            break
        g = (g + 1) % gateways
    ground.books.gateway[request] = g
    see_firsts(engines.tables.requests, ground, asked.arrival_ps)
    if ground.marks.canary[ground.books.home[request]]:
        tell(ground.notes, NOTE_TRIED, request, g)
    else:
        place(policy, engines, agenda, ground, request, asked.arrival_ps)
