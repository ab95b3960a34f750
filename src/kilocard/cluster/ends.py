"""What gateways hear of engines: first tokens, and ends."""

from __future__ import annotations

from typing import Any

from kilocard.cluster import lines as line_of
from kilocard.cluster.books import OK, UNDER_WAY, Note, tell
from kilocard.cluster.find import column, columns_with, guesses_of, line_number
from kilocard.cluster.ground import PACE_MEMORY_S, Ground
from kilocard.cluster.moves import came_free, close
from kilocard.engine_model.compiled import PICOSECONDS, compiled
from kilocard.engine_model.scheduler import run_end_ps
from kilocard.engine_model.state import Engines, Rows
from kilocard.fleet.due import pop, push, soonest_ps
from kilocard.fleet.loop import Agenda
from kilocard.routing import lengths, observe, pace
from kilocard.routing.replicas import Policy

NOTE_ENDED = int(Note.ENDED)
learn = compiled(lengths.learn)


@compiled
def see_begins(engines: Engines, ground: Ground, r: int) -> None:
    """A plan was made: whose prompts it completes will be seen to begin when its first step ends."""
    replica = engines.replicas[r]
    if replica.tokens <= replica.decoding:
        return
    at_ps = run_end_ps(replica, 1)
    requests = engines.tables.requests
    for place in range(replica.occupied):
        request = engines.slots[r][place].request
        if requests[request].first_ps == at_ps:
            push(ground.firsts, request, at_ps)


@compiled
def see_firsts(requests: Rows, ground: Ground, now_ps: int) -> None:
    """All first tokens up to now."""
    books = ground.books
    while soonest_ps(ground.firsts) <= now_ps:
        at_ps = soonest_ps(ground.firsts)
        request = pop(ground.firsts)
        asked = requests[request]
        if books.status[request] != UNDER_WAY or asked.first_ps != at_ps:
            continue
        g, r = books.gateway[request], asked.replica
        at = column(ground, g, r)
        columns = columns_with(ground, g, ground.shape.pool[r])
        waited_s = (asked.first_ps - books.sent_ps[request]) / PICOSECONDS
        observe.began(columns, at, books.uncached[request], waited_s, books.read[request])
        books.uncached[request] = 0
        books.read[request] = columns.read_tokens[at]
        books.others_s[request] = observe.requests_s(columns, at, asked.first_ps / PICOSECONDS)


@compiled
def end(policy: Policy, engines: Engines, agenda: Agenda, ground: Ground, ended: Any) -> None:
    """An engine has written the last token of a request; whoever waits for its place is served."""
    books = ground.books
    request = ended.number
    if books.status[request] != UNDER_WAY:
        return
    see_firsts(engines.tables.requests, ground, ended.last_ps)
    g, r = books.gateway[request], ended.replica
    p = ground.shape.pool[r]
    at = column(ground, g, r)
    columns = columns_with(ground, g, p)
    now_s = ended.last_ps / PICOSECONDS
    seconds = (ended.last_ps - ended.first_ps) / PICOSECONDS
    company = observe.mean_company(columns, at, books.others_s[request], seconds, now_s)
    expected = float(books.expected[request])
    observe.progressed(columns, at, ended.output - 1, seconds, expected, books.read[request], company)
    observe.ended(columns, at, books.uncached[request], 0.0, now_s)
    learn(guesses_of(ground, g), books.guess_row[request], ended.output)
    close(engines, agenda, ground, request, OK, 0, ended.last_ps)
    if ground.marks.watched[at]:
        tell(ground.notes, NOTE_ENDED, request, at)
    waits = line_of.waiting(ground.lines, line_number(ground, g, p))
    row = ground.paces[line_number(ground, g, p)]
    pace.saw(row, ground.rules[PACE_MEMORY_S], now_s, waits, 1)
    came_free(policy, engines, agenda, ground, g, p, ended.last_ps)
