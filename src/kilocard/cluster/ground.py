"""All that a cluster's loop works on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilocard.cluster.books import Books, Notes
from kilocard.cluster.lines import Lines
from kilocard.cluster.views import Shape, Views
from kilocard.fleet.due import Due
from kilocard.routing import slow

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ARRIVED, ENDED, LOOK_PS, LOOKS = range(4)
"""Places of `Ground.counts`: requests that have arrived, those that have ended; the next look at the clock,
looks so far."""

RULES = (
    "pace_memory_s",
    "guard",
    "first_byte_s",
    "scrape_looks",
    "judge_looks",
    "sample_looks",
    "requests_s",
)
(
    PACE_MEMORY_S,
    GUARD,
    FIRST_BYTE_S,
    SCRAPE_LOOKS,
    JUDGE_LOOKS,
    SAMPLE_LOOKS,
    OVERHEAD_S,
) = range(len(RULES))
"""Places of `Ground.rules`; three are counted in looks at the clock."""


class Sent(NamedTuple):
    """A ring of requests in the order in which they left for an engine, `ends` its head and tail: who has no
    first token when its time is up is found at the head."""

    requests: NDArray[np.int32]
    at_ps: Ints
    ends: Ints


class Guesses(NamedTuple):
    """Of answers' lengths, `kilocard.routing.lengths` by gateway and row."""

    answers: Floats
    mean_tokens: Floats


class Marks(NamedTuple):
    """By engine, what its process does (`kilocard.cluster.books`); by gateway and engine, whether its endings
    are looked at one by one and whether it is in; by gateway, whether it hears no metrics, and what it does;
    by pool, whether it tries a canary; by gateway and pool, whether somebody is on their way up for the first
    time, and whether somebody is slow or may be."""

    alive: NDArray[np.int8]
    watched: NDArray[np.int8]
    inside: NDArray[np.int8]
    blind: NDArray[np.int8]
    open: NDArray[np.int8]
    canary: NDArray[np.int8]
    expects: NDArray[np.int8]
    judged: NDArray[np.int8]


class Samples(NamedTuple):
    """By sample and engine; `ends` tells where they end. `used` is of the KV cache, in thousandths."""

    at_ps: Ints
    running: NDArray[np.int32]
    waiting: NDArray[np.int32]
    used: NDArray[np.int16]
    preemptions: NDArray[np.int32]
    share: NDArray[np.float32]
    lines: NDArray[np.int32]
    ends: Ints


class Ground(NamedTuple):
    """`slow` and `heard_s`, when a token came last, are by gateway and engine; `firsts` are requests by their
    first token; `paces` by gateway and pool; `aged_share` by rank."""

    shape: Shape
    views: Views
    lines: Lines
    books: Books
    notes: Notes
    marks: Marks
    slow: slow.Marks
    slow_bounds: slow.Bounds
    heard_s: Floats
    sent: Sent
    firsts: Due
    paces: Floats
    guesses: Guesses
    samples: Samples
    rules: Floats
    aged_share: Floats
    counts: Ints
