"""What each gateway knows of each replica, in one table for all of them; and a pool of it as policies see
it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import compiled
from kilocard.routing import prefixes
from kilocard.routing.chance import new_random
from kilocard.routing.company import new_company
from kilocard.routing.replicas import Arrival, Policy, Replicas, new_replicas

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_HELD_BYTES = 2**28
"""Of all that gateways remember of prefixes: with many replicas each is remembered for less."""


class Shape(NamedTuple):
    """How the cluster is made: `begins` of each pool's engines, in turn, and where the last one ends; `pool`
    of each engine; the pools that each may borrow of, and those that may borrow of it, −1 where no more."""

    gateways: int
    engines: int
    begins: Ints
    pool: Ints
    lenders: Ints
    borrowers: Ints


class Views(NamedTuple):
    """`columns` of gateway g and engine r stand at g x engines + r; tables of a pool, at g x pools + p."""

    columns: Replicas
    company: Floats
    random: Ints
    held: prefixes.Held
    keys: Ints
    ends: Ints


def new_views(shape: Shape, seed: int, longest_path: int) -> Views:
    """Every gateway knows that the engines are there, and nothing of them."""
    rows, pools = shape.gateways * shape.engines, len(shape.begins) - 1
    places = prefixes.FEW_PLACES
    while longest_path and rows * places * 16 > MOST_HELD_BYTES and places > 64:
        places //= 2
    return Views(
        columns=new_replicas(rows),
        company=np.stack([new_company()] * (shape.gateways * pools)),
        random=np.stack([new_random(seed + k) for k in range(shape.gateways * pools)]),
        held=prefixes.new_held(rows if longest_path else 1, places if longest_path else 1),
        keys=np.zeros(longest_path, np.int64),
        ends=np.zeros(longest_path, np.int64),
    )


@compiled
def rows(columns: Replicas, company: Floats, begin: int, end: int) -> Replicas:
    """Some rows of the table, beside the company of their pool."""
    return Replicas(
        columns.active[begin:end],
        columns.prompt_tokens[begin:end],
        columns.output_left[begin:end],
        columns.cached_tokens[begin:end],
        columns.weight[begin:end],
        columns.share[begin:end],
        columns.cap[begin:end],
        columns.kv_free[begin:end],
        columns.tpot_s[begin:end],
        columns.prefill_s[begin:end],
        columns.read_tokens[begin:end],
        columns.request_s[begin:end],
        columns.changed_s[begin:end],
        columns.slowness[begin:end],
        company,
        columns.credit[begin:end],
    )


@compiled
def pool_of(views: Views, shape: Shape, g: int, p: int) -> Replicas:
    """A pool's replicas as one gateway sees them."""
    pools = len(shape.begins) - 1
    at = g * shape.engines
    return rows(views.columns, views.company[g * pools + p], at + shape.begins[p], at + shape.begins[p + 1])


@compiled
def choose(policy: Policy, views: Views, shape: Shape, g: int, p: int, arrival: Arrival, length: int) -> int:
    """The engine that the policy names among a pool's with room, as this gateway sees them; −1 for none.
    The prompt's streams are the first `length` of `views.keys`."""
    replicas = pool_of(views, shape, g, p)
    if len(views.keys) > 0:
        at = g * shape.engines
        begin, end = at + shape.begins[p], at + shape.begins[p + 1]
        held = prefixes.Held(views.held.keys[begin:end], views.held.ends[begin:end])
        prefixes.find(held, views.keys[:length], views.ends[:length], replicas.cached_tokens)
    r = policy(replicas, arrival, views.random[g * (len(shape.begins) - 1) + p])
    if r < 0 or r >= len(replicas.weight) or replicas.weight[r] <= 0:
        return -1
    return shape.begins[p] + r


@compiled
def load_of(views: Views, shape: Shape, g: int, p: int) -> tuple[int, int]:
    """Requests in flight at those of a pool that may be used, and the sum of their caps (0 where one has
    none), of one gateway."""
    active = capacity = 0
    capped = True
    at = g * shape.engines
    for r in range(at + shape.begins[p], at + shape.begins[p + 1]):
        if views.columns.share[r] > 0:
            active += views.columns.active[r]
            capacity += views.columns.cap[r]
            capped = capped and views.columns.cap[r] > 0
    return active, capacity if capped else 0


@compiled
def serves(views: Views, shape: Shape, g: int, p: int) -> bool:
    """Whether any of a pool's may be used by this gateway, now or when it has room."""
    at = g * shape.engines
    for r in range(at + shape.begins[p], at + shape.begins[p + 1]):  # noqa: SIM110 (compiled: no generators)
        if views.columns.share[r] > 0:
            return True
    return False
