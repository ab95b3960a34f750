"""What a gateway knows of its replicas, as columns; and the one signature that every policy has."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilocard.routing.company import new_company


class Replicas(NamedTuple):
    """One row a replica: the gateway's own counts, and what it last saw or heard.

    active: requests in flight.
    prompt_tokens: of those without a first token yet, the prompt tokens that no cache was expected to hold.
    output_left: tokens that those in flight are still expected to write.
    cached_tokens: of the prompt at hand, what the replica's cache probably holds.
    weight: in [0, 1], what a policy looks at; 0 where the replica is out or full. It is `share` while there
        is room under `cap`, and `kilocard.routing.observe` keeps that true.
    share: in [0, 1], as health and the operator have it.
    cap: the most in flight, 0 for none.
    kv_free: share of the KV cache, as last scraped; 1 where nothing is known.
    tpot_s, prefill_s: rolling seconds an output token, and an uncached prompt token; 0 where nothing is
        known.
    read_tokens: uncached prompt tokens of all that ever began to answer: who waited, for them or beside them,
        knows how many were read meanwhile.
    request_s, changed_s: seconds in flight of all its requests together, up to the moment when their number
        last changed. What they grow by in a second is the mean number.
    slowness: rolling, times the seconds that a token usually takes in such company; 0 where nothing is known.
    company: of the pool, not of a replica: the table of `kilocard.routing.company`.
    credit: a policy's own, kept between calls.
    """

    active: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_left: NDArray[np.float64]
    cached_tokens: NDArray[np.int64]
    weight: NDArray[np.float64]
    share: NDArray[np.float64]
    cap: NDArray[np.int64]
    kv_free: NDArray[np.float64]
    tpot_s: NDArray[np.float64]
    prefill_s: NDArray[np.float64]
    read_tokens: NDArray[np.int64]
    request_s: NDArray[np.float64]
    changed_s: NDArray[np.float64]
    slowness: NDArray[np.float64]
    company: NDArray[np.float64]
    credit: NDArray[np.float64]


OF_THE_POOL = frozenset({"company"})
"""No column: it stays as it is when a replica joins or leaves."""


class Arrival(NamedTuple):
    """What a policy may know of a request: its prompt, a guess of its answer, the prefix it shares, its
    rank."""

    prompt_tokens: int
    expected_tokens: int
    prefix: int
    priority: int


Policy = Callable[[Replicas, Arrival, NDArray[np.int64]], int]
"""(replicas, arrival, random state) → the number of a replica, or −1 where none may take it. No clock, no
socket.

A user's own is compiled with a look at the bounds of its columns. `NUMBA_DISABLE_JIT=1` runs it in plain
Python, where what no compiler takes (an import, an object) runs too.
"""


def new_replicas(count: int) -> Replicas:
    """Idle, healthy replicas of equal weight without caps, of which nothing is known."""
    return Replicas(
        active=np.zeros(count, np.int64),
        prompt_tokens=np.zeros(count, np.int64),
        output_left=np.zeros(count),
        cached_tokens=np.zeros(count, np.int64),
        weight=np.ones(count),
        share=np.ones(count),
        cap=np.zeros(count, np.int64),
        kv_free=np.ones(count),
        tpot_s=np.zeros(count),
        prefill_s=np.zeros(count),
        read_tokens=np.zeros(count, np.int64),
        request_s=np.zeros(count),
        changed_s=np.zeros(count),
        slowness=np.zeros(count),
        company=new_company(),
        credit=np.zeros(count),
    )


def with_another(replicas: Replicas) -> Replicas:
    """The same, and an idle one more."""
    fresh = new_replicas(1)._asdict()
    return replicas._replace(
        **{
            name: np.concatenate((column, fresh[name]))
            for name, column in replicas._asdict().items()
            if name not in OF_THE_POOL
        }
    )


def without(replicas: Replicas, gone: int) -> Replicas:
    """All but one; the rows after it move up."""
    return replicas._replace(
        **{
            name: np.delete(column, gone)
            for name, column in replicas._asdict().items()
            if name not in OF_THE_POOL
        }
    )
