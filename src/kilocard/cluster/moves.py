"""The moves of one request: it is placed, sent, begins, ends, waits, is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from kilocard.cluster import lines as line_of
from kilocard.cluster.books import (
    GONE,
    MUTE,
    NOBODY_SERVED,
    OK,
    REFUSED,
    TOO_LONG,
    UNDER_WAY,
    WAS_FULL,
    Note,
    tell,
)
from kilocard.cluster.ground import (
    ENDED,
    GUARD,
    OVERHEAD_S,
    PACE_MEMORY_S,
    Ground,
)
from kilocard.cluster.views import choose, load_of, serves
from kilocard.engine_model.compiled import PICOSECONDS, compiled
from kilocard.engine_model.scheduler import arrive, run_end_ps
from kilocard.engine_model.state import NOBODY, Engines, Rows
from kilocard.fleet.due import pop, push, soonest_ps
from kilocard.fleet.events import sift
from kilocard.fleet.loop import Agenda
from kilocard.routing import lengths, observe, pace, prefixes
from kilocard.routing.admission import FULL, NOBODY_SERVES, SENT, WAITS, decide, most_waiting
from kilocard.routing.pools import is_idle
from kilocard.routing.replicas import Arrival, Policy, Replicas

NOTE_ENDED, NOTE_REFUSED = int(Note.ENDED), int(Note.REFUSED)

guess, learn = compiled(lengths.guess), compiled(lengths.learn)


@compiled
def line_number(ground: Ground, g: int, p: int) -> int:
    """The number of a gateway's line before a pool; of their paces and companies too."""
    return g * (len(ground.shape.begins) - 1) + p


@compiled
def column(ground: Ground, g: int, r: int) -> int:
    """Where an engine stands in the table of all views."""
    return g * ground.shape.engines + r


@compiled
def columns_with(ground: Ground, g: int, p: int) -> Replicas:
    """The whole table, beside the company of one pool."""
    own = ground.views.columns
    return Replicas(
        own.active,
        own.prompt_tokens,
        own.output_left,
        own.cached_tokens,
        own.weight,
        own.share,
        own.cap,
        own.kv_free,
        own.tpot_s,
        own.prefill_s,
        own.read_tokens,
        own.request_s,
        own.changed_s,
        own.slowness,
        ground.views.company[line_number(ground, g, p)],
        own.credit,
    )


@compiled
def guesses_of(ground: Ground, g: int) -> lengths.Seen:
    """What one gateway has seen of answers' lengths."""
    return lengths.Seen(ground.guesses.answers[g], ground.guesses.mean_tokens[g])


@compiled
def read_path(engines: Engines, ground: Ground, asked: Any, most: int) -> int:
    """A prompt's streams as keys, up to so many tokens; returns how many there are."""
    for i in range(asked.path_length):
        step = engines.tables.paths[asked.path_at + i]
        ground.views.keys[i] = step.stream
        ground.views.ends[i] = min(step.end_tokens, most)
    return asked.path_length


@compiled
def arrival_of(engines: Engines, ground: Ground, request: int) -> Arrival:
    """What a policy may know of a request; the guess of its answer is kept in its books."""
    asked = engines.tables.requests[request]
    books = ground.books
    prefix = engines.tables.paths[asked.path_at].stream if asked.path_length > 0 else NOBODY
    expected: Any = np.int64(books.expected[request])
    return Arrival(asked.prompt, expected, prefix, asked.priority)


@compiled
def named(policy: Policy, engines: Engines, ground: Ground, g: int, p: int, request: int) -> int:
    """The engine of a pool that the policy names for a request; −1 for none."""
    length = 0
    if len(ground.views.keys) > 0:
        asked = engines.tables.requests[request]
        length = read_path(engines, ground, asked, asked.prompt - 1)
    arrival = arrival_of(engines, ground, request)
    return choose(policy, ground.views, ground.shape, g, p, arrival, length)


@compiled
def find_place(policy: Policy, engines: Engines, ground: Ground, request: int) -> int:
    """An engine of the request's own pool, or an idle one of a lender's; −1 for none."""
    g, home = ground.books.gateway[request], ground.books.home[request]
    r = named(policy, engines, ground, g, home, request)
    if r >= 0:
        return r
    for k in range(ground.shape.lenders.shape[1]):
        lender = ground.shape.lenders[home, k]
        if lender < 0:
            break
        active, capacity = load_of(ground.views, ground.shape, g, lender)
        waiting = line_of.waiting(ground.lines, line_number(ground, g, lender))
        if is_idle(waiting, active, capacity, ground.rules[GUARD]):
            r = named(policy, engines, ground, g, lender, request)
            if r >= 0:
                return r
    return NOBODY


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
