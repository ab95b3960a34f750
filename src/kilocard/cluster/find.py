"""Which engine a request may go to, as its gateway sees them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kilocard.cluster import lines as line_of
from kilocard.cluster.ground import GUARD, Ground
from kilocard.cluster.views import choose, load_of
from kilocard.engine_model.compiled import compiled
from kilocard.engine_model.state import NOBODY, Engines
from kilocard.routing import lengths
from kilocard.routing.pools import is_idle
from kilocard.routing.replicas import Arrival, Policy, Replicas


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
