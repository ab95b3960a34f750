"""What gateways look at now and then: whose time is up, metrics, who is slow; and the samples."""

from __future__ import annotations

from kilocard.cluster import lines as line_of
from kilocard.cluster.books import UNDER_WAY, WAITED, Note, tell
from kilocard.cluster.ends import see_firsts
from kilocard.cluster.find import column, line_number
from kilocard.cluster.ground import (
    FIRST_BYTE_S,
    JUDGE_LOOKS,
    LOOK_PS,
    LOOKS,
    SAMPLE_LOOKS,
    SCRAPE_LOOKS,
    Ground,
)
from kilocard.cluster.moves import came_free, refuse
from kilocard.engine_model.compiled import PICOSECONDS, compiled
from kilocard.engine_model.state import NOBODY, Engines
from kilocard.fleet.loop import Agenda
from kilocard.routing.replicas import Policy
from kilocard.routing.slow import look_at, rows_of

LOOK_EVERY_PS = PICOSECONDS // 10
NOTE_LATE, NOTE_SLOW = int(Note.LATE), int(Note.SLOW)


@compiled
def look(policy: Policy, engines: Engines, agenda: Agenda, ground: Ground) -> None:
    """Every tenth of a second: whose time is up; now and then the engines' metrics, and who is slow."""
    counts = ground.counts
    now_ps, looks = counts[LOOK_PS], counts[LOOKS]
    counts[LOOK_PS] = now_ps + LOOK_EVERY_PS
    counts[LOOKS] = looks + 1
    see_late(engines, ground, now_ps)
    if ground.lines.now[0] > 0:
        refuse_late(policy, engines, agenda, ground, now_ps)
    scrape(engines, ground, looks)
    if looks % int(ground.rules[JUDGE_LOOKS]) == 0:
        see_firsts(engines.tables.requests, ground, now_ps)
        for g in range(ground.shape.gateways):
            for p in range(len(ground.shape.begins) - 1):
                if ground.marks.open[g] and judge(ground, g, p, now_ps):
                    tell(ground.notes, NOTE_SLOW, g, p)
    if looks % int(ground.rules[SAMPLE_LOOKS]) == 0:
        sample(engines, ground, now_ps)


@compiled
def see_late(engines: Engines, ground: Ground, now_ps: int) -> None:
    """Tries that were sent too long ago and have not begun to answer."""
    sent, books = ground.sent, ground.books
    requests = engines.tables.requests
    first_byte_ps = int(ground.rules[FIRST_BYTE_S] * PICOSECONDS)
    mask = len(sent.requests) - 1
    while sent.ends[0] < sent.ends[1] and sent.at_ps[sent.ends[0] & mask] + first_byte_ps <= now_ps:
        at = sent.ends[0] & mask
        request = sent.requests[at]
        sent.ends[0] += 1
        is_same_try = books.sent_ps[request] == sent.at_ps[at]
        begun = 0 <= requests[request].first_ps <= now_ps
        if books.status[request] == UNDER_WAY and is_same_try and not begun:
            tell(ground.notes, NOTE_LATE, request, requests[request].replica)


@compiled
def refuse_late(policy: Policy, engines: Engines, agenda: Agenda, ground: Ground, now_ps: int) -> None:
    """Those who have waited too long; whoever still waits tries again."""
    for g in range(ground.shape.gateways):
        for p in range(len(ground.shape.begins) - 1):
            line = line_number(ground, g, p)
            if line_of.waiting(ground.lines, line) == 0:
                continue
            while True:
                late = line_of.overdue(ground.lines, engines.tables.requests, line, now_ps)
                if late == NOBODY:
                    break
                refuse(engines, agenda, ground, late, WAITED, now_ps)
            came_free(policy, engines, agenda, ground, g, p, now_ps)


@compiled
def scrape(engines: Engines, ground: Ground, looks: int) -> None:
    """Each gateway reads each engine's metrics once a period, each at a turn of its own."""
    period = int(ground.rules[SCRAPE_LOOKS])
    if period == 0:
        return
    engines_count, gateways = ground.shape.engines, ground.shape.gateways
    for g in range(gateways):
        if ground.marks.blind[g]:
            continue
        turn = (looks + g * period // gateways) % period
        begin = engines_count * turn // period
        for r in range(begin, engines_count * (turn + 1) // period):
            replica = engines.replicas[r]
            if ground.marks.alive[r] == 0:
                ground.views.columns.kv_free[column(ground, g, r)] = replica.free_blocks / replica.kv_blocks


@compiled
def judge(ground: Ground, g: int, p: int, now_ps: int) -> bool:
    """Look for those of a pool that are slow beside the others; returns whether that has changed."""
    line = line_number(ground, g, p)
    if not ground.marks.judged[line] and not somebody_may_be_slow(ground, g, p):
        return False
    begin = column(ground, g, ground.shape.begins[p])
    end = column(ground, g, ground.shape.begins[p + 1])
    columns, marks = ground.views.columns, rows_of(ground.slow, begin, end)
    for at in range(begin, end):
        if columns.active[at] > 0:
            ground.heard_s[at] = now_ps / PICOSECONDS
    changed = look_at(
        marks,
        columns.tpot_s[begin:end],
        columns.active[begin:end],
        ground.heard_s[begin:end],
        ground.marks.inside[begin:end],
        ground.slow_bounds,
        now_ps / PICOSECONDS,
    )
    ground.marks.judged[line] = 0
    for k in range(end - begin):
        if marks.forget[k]:
            columns.tpot_s[begin + k] = columns.slowness[begin + k] = 0.0
        if marks.slow[k] or marks.over_s[k] == marks.over_s[k]:
            ground.marks.judged[line] = 1
    return changed


@compiled
def somebody_may_be_slow(ground: Ground, g: int, p: int) -> bool:
    """Whether `kilocard.routing.slow.judge` could find one where none is yet: somebody's TPOT is over the
    floor, and over so many times the least that could be the median of the others."""
    columns = ground.views.columns
    begin = column(ground, g, ground.shape.begins[p])
    finish = column(ground, g, ground.shape.begins[p + 1])
    known = 0
    worst = 0.0
    for at in range(begin, finish):
        if columns.share[at] > 0 and columns.tpot_s[at] > 0:
            known += 1
            worst = max(worst, columns.tpot_s[at])
    if known < 2 or worst <= ground.slow_bounds.floor_s:
        return False
    bound = worst / ground.slow_bounds.ratio
    under = 0
    for at in range(begin, finish):
        under += columns.share[at] > 0 and 0 < columns.tpot_s[at] < bound
    return under > max(0, (known - 1) // 2 - 1)


@compiled
def sample(engines: Engines, ground: Ground, now_ps: int) -> None:
    """One row more of the time series."""
    samples = ground.samples
    k = samples.ends[0]
    if k >= len(samples.at_ps):
        return
    samples.ends[0] = k + 1
    samples.at_ps[k] = now_ps
    for r in range(ground.shape.engines):
        replica = engines.replicas[r]
        samples.running[k, r] = replica.occupied
        samples.waiting[k, r] = replica.waiting
        samples.used[k, r] = 1000 - 1000 * replica.free_blocks // replica.kv_blocks
        samples.preemptions[k, r] = replica.preemptions
        share = 0.0
        for g in range(ground.shape.gateways):
            share += ground.views.columns.share[column(ground, g, r)]
        samples.share[k, r] = share / ground.shape.gateways
    for line in range(len(ground.lines.limits)):
        samples.lines[k, line] = line_of.waiting(ground.lines, line)
