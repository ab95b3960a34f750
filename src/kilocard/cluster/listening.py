"""What the loop leaves to its crew, note by note."""

from __future__ import annotations

from kilocard.cluster.books import CUT, Note
from kilocard.cluster.crew import Crew
from kilocard.cluster.ground import LOOK_PS
from kilocard.cluster.hands import Hands
from kilocard.cluster.life import Life
from kilocard.routing.health import Ending


def listen(crew: Crew) -> None:
    """Do what the loop has noted and left."""
    hands, watch, trouble, life = crew.hands, crew.watch, crew.trouble, crew.life
    ground, requests = hands.ground, hands.engines.tables.requests
    count = int(ground.notes.ends[0])
    told = ground.notes.rows[:count].tolist()
    ground.notes.ends[0] = 0
    for what, which, who in told:
        match Note(what):
            case Note.SLOW:
                watch.judged(which, who, int(ground.counts[LOOK_PS]))
            case Note.LATE:
                trouble.late(which, int(ground.counts[LOOK_PS]))
            case Note.REFUSED:
                g, sent_ps = int(ground.books.gateway[which]), int(ground.books.sent_ps[which])
                watch.request_ended(g, who, Ending.REFUSED, sent_ps, sent_ps)
                hands.fail(which, CUT, sent_ps)
            case Note.ENDED:
                g = who // ground.shape.engines
                last_ps = int(requests[which].last_ps)
                sent_ps = int(ground.books.sent_ps[which])
                watch.request_ended(g, who % ground.shape.engines, Ending.OK, sent_ps, last_ps)
            case Note.TRIED:
                place_on_a_side(hands, life, which)


def place_on_a_side(hands: Hands, life: Life, request: int) -> None:
    """While a canary is tried, a share of the requests is for it and the rest is not."""
    ground, asked = hands.ground, hands.engines.tables.requests[request]
    own = life.spec.lifecycle.canary
    g, p = int(ground.books.gateway[request]), int(ground.books.home[request])
    begin, end = (int(it) for it in ground.shape.begins[p : p + 2])
    canaries = set(life.canary_engines(p))
    for_canary = own is not None and life.chance.random() < own.share
    sides = {True: [r for r in range(begin, end) if r in canaries]}
    sides[False] = [r for r in range(begin, end) if r not in canaries]
    weight, at = ground.views.columns.weight, g * ground.shape.engines
    barred = [at + r for r in sides[not for_canary]]
    if any(weight[at + r] > 0 for r in sides[for_canary]):
        kept = weight[barred].copy()
        weight[barred] = 0.0
        hands.place(request, int(asked.arrival_ps))
        weight[barred] = kept
    else:
        hands.place(request, int(asked.arrival_ps))
