"""A cluster file and its traffic as the tables that the cluster's loop works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kilocard.cluster.books import new_books, new_notes
from kilocard.cluster.engines import Fleet
from kilocard.cluster.ground import RULES, Ground, Guesses, Marks, Samples, Sent
from kilocard.cluster.lines import new_lines
from kilocard.cluster.looks import LOOK_EVERY_PS
from kilocard.cluster.views import Shape, Views, new_views
from kilocard.engine_model.compiled import PICOSECONDS
from kilocard.engine_model.state import Engines
from kilocard.fleet.due import new_due
from kilocard.gateway.scraping import MOST_PER_S
from kilocard.routing.admission import PRIORITIES
from kilocard.routing.limits import owned_caps
from kilocard.routing.pace import MEMORY_S, new_paces
from kilocard.routing.pools import PoolRule
from kilocard.routing.slow import SlowRule, new_marks
from kilocard.specs.cluster import ClusterSpec

LOOKS_PER_S = PICOSECONDS // LOOK_EVERY_PS
GUESS_ROWS = 64
"""By the binary digits of a limit: there is one tenant."""


def shape_of(spec: ClusterSpec, fleet: Fleet) -> Shape:
    """Pools of engines one after the other, and who borrows of whom."""
    names = [pool.name for pool in spec.pools]
    lenders = [[names.index(name) for name in pool.borrow_from] for pool in spec.pools]
    borrowers = [[p for p, its in enumerate(lenders) if q in its] for q in range(len(names))]
    return Shape(
        gateways=spec.gateway.gateways,
        engines=len(fleet.pool),
        begins=fleet.begins,
        pool=fleet.pool,
        lenders=_padded(lenders),
        borrowers=_padded(borrowers),
    )


def _padded(lists: Sequence[Sequence[int]]) -> Any:
    table = np.full((len(lists), max(1, *map(len, lists))), -1, np.int64)
    for row, content in enumerate(lists):
        table[row, : len(content)] = content
    return table


def lay_out(
    spec: ClusterSpec,
    fleet: Fleet,
    engines: Engines,
    *,
    request_s: float,
    sample_s: float,
    until_s: float,
    seed: int,
    slow_rule: SlowRule,
) -> Ground:
    """Everything as it is before the first request: all engines that the file asks for serve."""
    shape = shape_of(spec, fleet)
    requests = engines.tables.requests
    longest = int(requests.path_length.max()) if len(requests) else 0
    pools, gateways = len(spec.pools), shape.gateways
    limits = np.repeat(owned(gateways, [spec.gateway.queue.limit]), pools)
    waits = [int(its.max_wait_s * PICOSECONDS) for its in spec.gateway.classes.by_rank]
    views = new_views(shape, seed, longest)
    set_caps(views, shape, fleet, gateways)
    return Ground(
        shape=shape,
        views=views,
        lines=new_lines(limits, np.array(waits), int(spec.gateway.queue.ageing_s * PICOSECONDS)),
        books=new_books(len(requests)),
        notes=new_notes(),
        marks=Marks(
            alive=np.where(fleet.starts, 0, 1).astype(np.int8),
            watched=np.zeros(gateways * shape.engines, np.int8),
            inside=np.ones(gateways * shape.engines, np.int8),
            blind=np.zeros(gateways, np.int8),
            open=np.ones(gateways, np.int8),
            canary=np.zeros(pools, np.int8),
            expects=np.zeros(gateways * pools, np.int8),
            judged=np.zeros(gateways * pools, np.int8),
        ),
        slow=new_marks(gateways * shape.engines),
        slow_bounds=slow_rule.bounds,
        heard_s=np.zeros(gateways * shape.engines),
        sent=new_sent(len(requests)),
        firsts=new_due(len(requests)),
        paces=new_paces(gateways * pools),
        guesses=Guesses(*(np.zeros((gateways, GUESS_ROWS)) for _ in range(2))),
        samples=new_samples(until_s, sample_s, shape, pools),
        rules=np.array(_rules(spec, shape.engines, request_s, sample_s)),
        aged_share=np.array([its.aged_share for its in PRIORITIES.values()]),
        counts=np.array([0, 0, 0, 1]),
    )


def _rules(spec: ClusterSpec, engines: int, request_s: float, sample_s: float) -> list[float]:
    health = spec.gateway.health
    every_s = health.metrics_every_s and max(health.metrics_every_s, engines / MOST_PER_S)
    told = {
        "pace_memory_s": MEMORY_S,
        "guard": PoolRule(spec.gateway.long_tokens).guard,
        "first_byte_s": spec.gateway.timeouts.first_byte_s,
        "scrape_looks": round(every_s * LOOKS_PER_S),
        "judge_looks": LOOKS_PER_S,
        "sample_looks": max(1, round(sample_s * LOOKS_PER_S)),
        "requests_s": request_s,
    }
    return [told[name] for name in RULES]


def owned(gateways: int, wholes: Sequence[int]) -> Any:
    """[gateway, which] of whole numbers each gateway's part; 0, which is none or no limit, stays."""
    table = np.zeros((gateways, len(wholes)), np.int64)
    some = [k for k, whole in enumerate(wholes) if whole]
    for g in range(gateways):
        table[g, some] = owned_caps([wholes[k] for k in some], g, gateways)
    return table


def set_caps(views: Views, shape: Shape, fleet: Fleet, gateways: int) -> None:
    """Each gateway's part of each cap; who has none of one has no share of that engine."""
    columns = views.columns
    for begin, end in zip(shape.begins[:-1], shape.begins[1:], strict=True):
        caps = fleet.caps[begin:end]
        parts = owned(gateways, caps.tolist())
        for g in range(gateways):
            rows = slice(g * shape.engines + begin, g * shape.engines + end)
            columns.cap[rows] = parts[g]
            is_owned = (parts[g] > 0) | (caps == 0)
            columns.share[rows] = is_owned & fleet.starts[begin:end]
            columns.weight[rows] = columns.share[rows]


def new_sent(requests: int) -> Sent:
    """Room for twice as many tries as there are requests; a try leaves when its first byte is due."""
    places = 1 << max(10, (2 * requests).bit_length())
    return Sent(np.zeros(places, np.int32), np.zeros(places, np.int64), np.zeros(2, np.int64))


def new_samples(until_s: float, sample_s: float, shape: Shape, pools: int) -> Samples:
    """Room for a sample each time until then."""
    rows = int(until_s / sample_s) + 2
    wide = (rows, shape.engines)
    return Samples(
        at_ps=np.zeros(rows, np.int64),
        running=np.zeros(wide, np.int32),
        waiting=np.zeros(wide, np.int32),
        used=np.zeros(wide, np.int16),
        preemptions=np.zeros(wide, np.int32),
        share=np.zeros(wide, np.float32),
        lines=np.zeros((rows, shape.gateways * pools), np.int32),
        ends=np.zeros(1, np.int64),
    )


def guess_rows(max_tokens: Any) -> Any:
    """Each request's row among the guesses of lengths, by the digits of its limit."""
    return np.minimum(np.frexp(max_tokens)[1], GUESS_ROWS - 1)
