"""What becomes of each request at the gateways, and what is noted for those who look after the cluster."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilocard.engine_model.compiled import compiled
from kilocard.record import Status

Ints = NDArray[np.int64]

UNDER_WAY, OK, REFUSED, TIMED_OUT, FAILED = range(5)
"""What `Books.status` says."""
STATUS = {OK: Status.OK, REFUSED: Status.REFUSED, TIMED_OUT: Status.TIMEOUT, FAILED: Status.ERROR}

NO_REASON, NOBODY_SERVED, WAS_FULL, TOO_LONG, WAITED, CUT, SILENT, GATEWAY_LOST = range(8)
REASONS = (
    "",
    "no replica is up",
    "replicas and line are full",
    "the wait would be too long",
    "waited too long",
    "the connection broke",
    "no token in time",
    "the gateway was lost",
)
"""What `Books.reason` says."""

UP, GONE, MUTE = range(3)
"""What an engine's process does: serve; nothing, its host says so; nothing, and nobody says so."""


class Note(IntEnum):
    """What the loop leaves to its caller: a connection that was refused, a request of an engine that is being
    watched and has ended, a request whose first token did not come in time, a gateway's pool in which one is
    slow or may be, an arrival at a pool that tries a canary."""

    REFUSED = 0
    ENDED = 1
    LATE = 2
    SLOW = 3
    TRIED = 4


class Books(NamedTuple):
    """By request: its gateway, the pool that is meant for it, how it stands, why, second tries; of its try
    that is under way the moment when it was sent, the uncached prompt tokens counted, and what had been read
    and in flight at the engine when its first token came; the answer's length as guessed, from which row."""

    gateway: NDArray[np.int16]
    home: NDArray[np.int16]
    status: NDArray[np.int8]
    reason: NDArray[np.int8]
    retries: NDArray[np.int8]
    sent_ps: Ints
    uncached: NDArray[np.int32]
    expected: NDArray[np.int32]
    guess_row: NDArray[np.int32]
    read: Ints
    others_s: NDArray[np.float64]


class Notes(NamedTuple):
    """`rows` of (what, which, who); `ends` tells where they end."""

    rows: Ints
    ends: Ints


def new_books(count: int) -> Books:
    """Of requests that have not arrived."""
    return Books(
        gateway=np.zeros(count, np.int16),
        home=np.zeros(count, np.int16),
        status=np.zeros(count, np.int8),
        reason=np.zeros(count, np.int8),
        retries=np.zeros(count, np.int8),
        sent_ps=np.full(count, -1, np.int64),
        uncached=np.zeros(count, np.int32),
        expected=np.zeros(count, np.int32),
        guess_row=np.zeros(count, np.int32),
        read=np.zeros(count, np.int64),
        others_s=np.zeros(count),
    )


def new_notes(most: int = 2**16) -> Notes:
    """Nothing to tell."""
    return Notes(np.zeros((most, 3), np.int64), np.zeros(1, np.int64))


@compiled
def tell(notes: Notes, what: int, which: int, who: int) -> None:
    """One more, while there is room: what is left out is seen again at the next look."""
    if notes.ends[0] < len(notes.rows):
        notes.rows[notes.ends[0], 0] = what
        notes.rows[notes.ends[0], 1] = which
        notes.rows[notes.ends[0], 2] = who
        notes.ends[0] += 1
