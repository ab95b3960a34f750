"""The moves of one request at its gateway: it is placed, sent, waits, is refused, is over."""

from __future__ import annotations

from kilocard.cluster import lines as line_of
from kilocard.cluster.books import (
    GONE,
    MUTE,
    NOBODY_SERVED,
    OK,
    REFUSED,
    TOO_LONG,
    WAS_FULL,
    Note,
    tell,
)
from kilocard.cluster.find import (
    arrival_of,
    column,
    columns_with,
    find_place,
    guesses_of,
    line_number,
    read_path,
)
from kilocard.cluster.ground import (
    ENDED,
    OVERHEAD_S,
    PACE_MEMORY_S,
    Ground,
)
from kilocard.cluster.views import serves
from kilocard.engine_model.compiled import PICOSECONDS, compiled
from kilocard.engine_model.scheduler import arrive
from kilocard.engine_model.state import NOBODY, Engines
from kilocard.fleet.due import push
from kilocard.fleet.events import sift
from kilocard.fleet.loop import Agenda
from kilocard.routing import lengths, observe, pace, prefixes
from kilocard.routing.admission import FULL, NOBODY_SERVES, SENT, WAITS, decide, most_waiting
from kilocard.routing.replicas import Policy

NOTE_REFUSED = int(Note.REFUSED)
guess = compiled(lengths.guess)


@compiled
def send(engines: Engines, agenda: Agenda, ground: Ground, request: int, r: int, now_ps: int) -> None:
    """The request leaves its gateway for an engine; where none is there, that is told."""
    asked = engines.tables.requests[request]
    books = ground.books
    g = books.gateway[request]
    at = column(ground, g, r)
    columns = columns_with(ground, g, ground.shape.pool[r])
    books.uncached[request] = observe.sent(
        columns, at, arrival_of(engines, ground, request), now_ps / PICOSECONDS
    )
    books.read[request] = columns.read_tokens[at]
    books.sent_ps[request] = now_ps
    asked.replica = r
    if len(ground.views.keys) > 0:
        length = read_path(engines, ground, asked, asked.prompt + asked.output)
        prefixes.remember(ground.views.held, at, ground.views.keys[:length], ground.views.ends[:length])
    if ground.marks.alive[r] == GONE:
        tell(ground.notes, NOTE_REFUSED, request, r)
        return
    note_sent(ground, request, now_ps)
    if ground.marks.alive[r] == MUTE:
        return
    replica = engines.replicas[r]
    arrive(engines.tables.requests, replica, asked, now_ps)
    if agenda.due_ps[r] != replica.event_ps:
        agenda.due_ps[r] = replica.event_ps
        sift(agenda.heap, agenda.place_of, agenda.due_ps, r)


@compiled
def note_sent(ground: Ground, request: int, now_ps: int) -> None:
    """It shall begin to answer in time."""
    sent = ground.sent
    tail = sent.ends[1]
    sent.requests[tail & (len(sent.requests) - 1)] = request
    sent.at_ps[tail & (len(sent.requests) - 1)] = now_ps
    sent.ends[1] = tail + 1


@compiled
def place(
    policy: Policy, engines: Engines, agenda: Agenda, ground: Ground, request: int, now_ps: int
) -> None:
    """A request has arrived: it is sent, it waits, or it is refused."""
    books, lines = ground.books, ground.lines
    g, home = books.gateway[request], books.home[request]
    asked = engines.tables.requests[request]
    books.expected[request] = guess(guesses_of(ground, g), books.guess_row[request], asked.output)
    line = line_number(ground, g, home)
    waits = line_of.waiting(lines, line)
    r = find_place(policy, engines, ground, request)
    if r >= 0 and waits == 0:
        send(engines, agenda, ground, request, r, now_ps)
        return
    rank = asked.priority
    requests = engines.tables.requests
    ahead = line_of.ahead(lines, requests, line, asked.arrival_ps, rank) if waits else 0
    per_s = pace.finished_per_s(ground.paces[line], ground.rules[PACE_MEMORY_S], now_ps / PICOSECONDS)
    ageing_s = lines.ageing_ps[0] / PICOSECONDS
    told = decide(
        somebody_serves(ground, g, home),
        r >= 0,
        waits,
        ahead,
        lines.limits[line],
        per_s if waits else float("inf"),
        lines.counts[line, rank],
        line_of.of_better(lines, line, rank),
        line_of.kept_for(lines, line, rank),
        most_waiting(rank, ground.aged_share[rank], per_s, ageing_s),
        lines.waits_ps[rank] / PICOSECONDS,
    )
    if told == SENT:
        send(engines, agenda, ground, request, r, now_ps)
    elif told == WAITS:
        wait(engines, agenda, ground, request, now_ps)
    elif told == NOBODY_SERVES:
        refuse(engines, agenda, ground, request, NOBODY_SERVED, now_ps)
    else:
        refuse(engines, agenda, ground, request, WAS_FULL if told == FULL else TOO_LONG, now_ps)


@compiled
def somebody_serves(ground: Ground, g: int, home: int) -> bool:
    """Whether a replica of the pool or of a lender can take requests, or soon will."""
    line = line_number(ground, g, home)
    if ground.marks.expects[line] or serves(ground.views, ground.shape, g, home):
        return True
    for k in range(ground.shape.lenders.shape[1]):
        lender = ground.shape.lenders[home, k]
        if lender < 0:
            break
        if ground.marks.expects[line_number(ground, g, lender)] or serves(
            ground.views, ground.shape, g, lender
        ):
            return True
    return False


@compiled
def wait(engines: Engines, agenda: Agenda, ground: Ground, request: int, now_ps: int) -> None:
    """It joins its line; who has to leave for it is refused."""
    g, home = ground.books.gateway[request], ground.books.home[request]
    line = line_number(ground, g, home)
    requests = engines.tables.requests
    gone = line_of.push(ground.lines, requests, line, request, requests[request].priority)
    waits = line_of.waiting(ground.lines, line)
    pace.saw(ground.paces[line], ground.rules[PACE_MEMORY_S], now_ps / PICOSECONDS, waits, 0)
    if gone != NOBODY:
        refuse(engines, agenda, ground, gone, WAS_FULL, now_ps)


@compiled
def refuse(engines: Engines, agenda: Agenda, ground: Ground, request: int, reason: int, now_ps: int) -> None:
    """It is told to come again later."""
    close(engines, agenda, ground, request, REFUSED, reason, now_ps)


@compiled
def close(
    engines: Engines, agenda: Agenda, ground: Ground, request: int, status: int, reason: int, now_ps: int
) -> None:
    """It is over for its client. A conversation that was not answered is not gone on with."""
    books = ground.books
    books.status[request] = status
    books.reason[request] = reason
    ground.counts[ENDED] += 1
    asked = engines.tables.requests[request]
    if status != OK:
        asked.last_ps = now_ps
    elif asked.successor != NOBODY:
        follower = asked.successor
        seen_ps = asked.last_ps + int(ground.rules[OVERHEAD_S] * PICOSECONDS)
        engines.tables.requests[follower].arrival_ps = seen_ps + engines.tables.requests[follower].gap_ps
        push(agenda.followers, follower, engines.tables.requests[follower].arrival_ps)


@compiled
def serve(
    policy: Policy, engines: Engines, agenda: Agenda, ground: Ground, g: int, p: int, now_ps: int
) -> None:
    """Those who wait for a pool, in order, as far as there is room."""
    line = line_number(ground, g, p)
    requests = engines.tables.requests
    while True:
        rank = line_of.first(ground.lines, requests, line)
        if rank == NOBODY:
            break
        request = ground.lines.heads[line, rank]
        r = find_place(policy, engines, ground, request)
        if r < 0:
            break
        line_of.take(ground.lines, requests, line, rank, request)
        send(engines, agenda, ground, request, r, now_ps)
    waits = line_of.waiting(ground.lines, line)
    pace.saw(ground.paces[line], ground.rules[PACE_MEMORY_S], now_ps / PICOSECONDS, waits, 0)


@compiled
def came_free(
    policy: Policy, engines: Engines, agenda: Agenda, ground: Ground, g: int, p: int, now_ps: int
) -> None:
    """Something ended in a pool, or somebody joined: whoever waits for it, or may borrow of it, is served."""
    if ground.lines.now[0] == 0:
        return
    if line_of.waiting(ground.lines, line_number(ground, g, p)) > 0:
        serve(policy, engines, agenda, ground, g, p, now_ps)
    for k in range(ground.shape.borrowers.shape[1]):
        borrower = ground.shape.borrowers[p, k]
        if borrower < 0:
            break
        if line_of.waiting(ground.lines, line_number(ground, g, borrower)) > 0:
            serve(policy, engines, agenda, ground, g, borrower, now_ps)
