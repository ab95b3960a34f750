"""What a gateway knows of its replicas, as columns; and the one signature that every policy has."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Replicas(NamedTuple):
    """One row a replica: the gateway's own counts and what it last heard.

    `active` requests in flight, `prompt_tokens` not yet answered with a first token, `weight` in [0, 1] (0:
    out), `cap` on `active` (0: none), `kv_free` as a share, `tpot_s` rolling. The simulator fills `active`
    alone.
    """

    active: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    weight: NDArray[np.float64]
    cap: NDArray[np.int64]
    kv_free: NDArray[np.float64]
    tpot_s: NDArray[np.float64]


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
    """Idle, healthy replicas of equal weight without caps."""
    return Replicas(
        active=np.zeros(count, np.int64),
        prompt_tokens=np.zeros(count, np.int64),
        weight=np.ones(count),
        cap=np.zeros(count, np.int64),
        kv_free=np.ones(count),
        tpot_s=np.zeros(count),
    )
